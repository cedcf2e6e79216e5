import type { FastifyPluginAsync } from 'fastify'
import { ApiError, StorageError } from '../errors.ts'
import type { Drain } from './drain.ts'

/** What the probes look at. */
export interface HealthOptions {
  /** Rejects with the reason when what the service needs does not answer. */
  readonly check: () => Promise<void>
  readonly drain: Pick<Drain, 'hasBegun'>
  /** Whether the database was found damaged since the start. */
  readonly damage: { readonly isFound: boolean }
}

/**
 * `/livez`: the process answers. `/readyz`: so does what it needs, and is sound, and it is not about to stop. Neither asks
 * for a key.
 */
export const healthPlugin: FastifyPluginAsync<HealthOptions> = async (app, { check, drain, damage }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    // First, and no error: balancers shall go elsewhere, and nothing is amiss.
    if (drain.hasBegun) return reply.code(503).send({ status: 'draining' })
    const failure = await check().then(
      () => undefined,
      (cause: unknown) => ({ cause }),
    )
    // It stays so until a restart: no answer of a damaged database is to be trusted.
    if (damage.isFound) return reply.code(503).send({ status: 'corrupt' })
    if (failure === undefined) return { status: 'ok' }
    const { cause } = failure
    // What a StorageError says is for the operator to read, and names no secret.
    const reason = cause instanceof StorageError ? cause.message : 'The database does not answer. Try again later.'
    throw new ApiError(503, 'not_ready', reason, { cause })
  })
}
