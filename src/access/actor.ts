import type { FastifyRequest } from 'fastify'
import type { Actor } from '../audit/record.ts'
import type { Limits } from '../limit-values.ts'
import { callerOf } from './guard.ts'
import { changeLimitsOf } from './limits-in-force.ts'

/**
 * The caller of a request as the author of a change. The audit records of the change are written to the log too.
 * @param settings the default limits of accounts, from the setting `LIMITS`
 */
export function actorOf(request: FastifyRequest, settings: Limits): Actor {
  const caller = callerOf(request)
  const { prefix, account } = caller
  return {
    kind: 'key',
    key: prefix,
    account: account.name,
    from: request.from,
    changeLimits: changeLimitsOf(caller, settings),
    onRecord: (record) => request.log.info(record, 'audit record'),
  }
}
