import type { FastifyPluginAsync } from 'fastify'
import { ApiError, StorageError } from '../errors.ts'

/** `/livez`: the process answers. `/readyz`: and so does what it needs. Neither asks for a key. */
export const healthPlugin: FastifyPluginAsync<{ readonly check: () => Promise<void> }> = async (app, { check }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async () => {
    try {
      await check()
    } catch (cause) {
      // What a StorageError says is for the operator to read, and names no secret.
      const reason = cause instanceof StorageError ? cause.message : 'The database does not answer. Try again later.'
      throw new ApiError(503, 'not_ready', reason, { cause })
    }
    return { status: 'ok' }
  })
}
