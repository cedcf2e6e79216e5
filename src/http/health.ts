import type { FastifyPluginAsync } from 'fastify'
import { ApiError, StorageError } from '../errors.ts'
import type { Drain } from './drain.ts'

/** The parts of the service that the probes check. */
export interface HealthOptions {
  /** Rejects with the reason when the database does not answer. */
  readonly check: () => Promise<void>
  readonly drain: Pick<Drain, 'hasBegun'>
  /** Whether the database was found damaged since the start. */
  readonly damage: { readonly isFound: boolean }
}

/**
 * `/livez`: the process answers. `/readyz`: the database answers and is not damaged, and the service is not about to stop. The
 * two routes need no key.
 */
export const healthPlugin: FastifyPluginAsync<HealthOptions> = async (app, { check, drain, damage }) => {
  app.get('/livez', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    // The drain is checked first. This 503 tells balancers to move to other replicas. It is not logged as an error.
    if (drain.hasBegun) return reply.code(503).send({ status: 'draining' })
    const failure = await check().then(
      () => undefined,
      (cause: unknown) => ({ cause }),
    )
    // Damage is reported until a restart, even if the database answers, because these answers cannot be trusted.
    if (damage.isFound) return reply.code(503).send({ status: 'corrupt' })
    if (failure === undefined) return { status: 'ok' }
    const { cause } = failure
    // The message of a StorageError is for the operator, and names no secret.
    const reason = cause instanceof StorageError ? cause.message : 'The database does not answer. Try again later.'
    throw new ApiError(503, 'not_ready', reason, { cause })
  })
}
