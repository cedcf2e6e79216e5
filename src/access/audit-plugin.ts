import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { AuditRecord, AuditTrail } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { AuditList, AuditQuery } from './audit-schemas.ts'
import { callerOf, type Guard, requireScope } from './guard.ts'
import { sendPage } from './pages.ts'

/** The objects that the route of the audit trail uses. */
export interface AuditOptions {
  readonly guard: Guard
  readonly audit: AuditTrail
}

const defaultLimit = 100

/** `GET /audit`. A key with the scope `admin` gets all records. A key with the scope `keys` gets the records of its account. */
export const auditPlugin: FastifyPluginAsyncTypebox<AuditOptions> = async (app, { guard, audit }) => {
  app.get(
    '/audit',
    {
      onRequest: [guard.admitApiKey, requireScope('keys', 'admin')],
      schema: {
        operationId: 'listAuditRecords',
        summary: 'List the audit trail',
        description:
          'Lists changes of keys, accounts, shares, characters, the database and the models, oldest first. If `has_more` is true, pass the id of the last record as `after` for the next page; a page of long records has fewer than `limit`. A key with the scope `admin` gets all records, a key with `keys` those of its own account.',
        tags: ['keys'],
        security,
        querystring: AuditQuery,
        response: answers({ 200: AuditList }, ChatError, [...refusals, 400]),
      },
    },
    async (request, reply) => {
      const { account: own, scopes } = callerOf(request)
      const { limit = defaultLimit, account, ...filters } = request.query
      const isOperator = scopes.includes('admin')
      if (account !== undefined && !isOperator) throw othersAccounts()
      const scope = isOperator ? { accountName: account } : { accountName: own.name, accountId: own.id }
      return sendPage<AuditRecord>(reply, {
        limit,
        read: (last, count) => audit.list({ ...filters, ...(last && { after: last.id }), ...scope, limit: count }),
        bodyOf: (record) => record,
      })
    },
  )
}

function othersAccounts(): ApiError {
  const message = 'Only a key with the scope "admin" may send "account". Leave "account" out to see your own records.'
  return new ApiError(403, 'missing_scope', message, { param: 'account' })
}
