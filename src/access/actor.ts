import type { FastifyRequest } from 'fastify'
import type { Actor } from '../audit/record.ts'
import { callerOf } from './guard.ts'

/** Whoever asks for a change by a request; the log is told of what comes of it. */
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
