import type { FastifyPluginAsync } from 'fastify'
import { ApiError, StorageError } from '../errors.ts'
import type { Drain } from './drain.ts'

/** What the probes check. */
export interface HealthOptions {
  /** Rejects with the reason when the database does not answer. */
  readonly check: () => Promise<void>
  readonly drain: Pick<Drain, 'hasBegun'>
  /** Whether the database was found damaged since the start. */
  readonly damage: { readonly isFound: boolean }
}

/**
 * `/livez`: the process answers. `/readyz`: the database answers and is not damaged, and the service is not about to stop. Both
 * need no key.
 */
export const healthPlugin: FastifyPluginAsync<HealthOptions> = async (app, { check, drain, damage }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    // First, and not an error: balancers move to other replicas, and nothing is wrong.
    if (drain.hasBegun) return reply.code(503).send({ status: 'draining' })
    const failure = await check().then(
      () => undefined,
      (cause: unknown) => ({ cause }),
    )
    // It stays so until a restart: answers of a damaged database cannot be trusted.
    if (damage.isFound) return reply.code(503).send({ status: 'corrupt' })
    if (failure === undefined) return { status: 'ok' }
    const { cause } = failure
    // The message of a StorageError is for the operator, and names no secret.
    const reason = cause instanceof StorageError ? cause.message : 'The database does not answer. Try again later.'
    throw new ApiError(503, 'not_ready', reason, { cause })
  })
}
