import type { FastifyRequest } from 'fastify'
import type { Actor } from '../audit/record.ts'
import { callerOf } from './guard.ts'

/** The caller of a request as the author of a change. The audit records of the change are written to the log too. */
export function actorOf(request: FastifyRequest): Actor {
  const { prefix, account } = callerOf(request)
  return {
    kind: 'key',
    key: prefix,
    account: account.name,
    from: request.from,
    onRecord: (record) => request.log.info(record, 'audit record'),
  }
}
