import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { AuditTrail } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { AuditList, AuditQuery } from './audit-schemas.ts'
import { callerOf, type Guard, requireScope } from './guard.ts'

/** What the route of the audit trail needs. */
export interface AuditOptions {
  readonly guard: Guard
  readonly audit: AuditTrail
}

const defaultLimit = 100

/** The audit trail. Keys with the scope `admin` get all records, keys with `keys` the records of their own account. */
export const auditPlugin: FastifyPluginAsyncTypebox<AuditOptions> = async (app, { guard, audit }) => {
  app.get(
    '/audit',
    {
      onRequest: [guard.admitApiKey, requireScope('keys', 'admin')],
      schema: {
        operationId: 'listAuditRecords',
        summary: 'List the audit trail',
        description:
          'Lists changes of keys, accounts, shares, characters, the database and the models, oldest first. For the next page pass the id of the last record as `after`. A key with the scope `admin` gets all records, a key with `keys` those of its own account.',
        tags: ['keys'],
        security,
        querystring: AuditQuery,
        response: answers({ 200: AuditList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { account: own, scopes } = callerOf(request)
      const { limit = defaultLimit, account, ...filters } = request.query
      const isOperator = scopes.includes('admin')
      if (account !== undefined && !isOperator) throw othersAccounts()
      const scope = isOperator ? { accountName: account } : { accountName: own.name, accountId: own.id }
      const records = await audit.list({ ...filters, ...scope, limit: limit + 1 })
      return { object: 'list', data: records.slice(0, limit), has_more: records.length > limit }
    },
  )
}

function othersAccounts(): ApiError {
  const message = 'Only keys with the scope "admin" ask for an account. Leave "account" out to see your own.'
  return new ApiError(403, 'missing_scope', message, { param: 'account' })
}
