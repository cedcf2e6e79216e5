import type { FastifyPluginAsync } from 'fastify'
import { ApiError } from '../errors.ts'

/** `/livez`: the process answers. `/readyz`: and so does what it needs. Neither asks for a key. */
export const healthPlugin: FastifyPluginAsync<{ readonly check: () => Promise<void> }> = async (app, { check }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async () => {
    try {
      await check()
    } catch (cause) {
      throw new ApiError(503, 'not_ready', 'The database does not answer. Try again later.', { cause })
    }
    return { status: 'ok' }
  })
}
