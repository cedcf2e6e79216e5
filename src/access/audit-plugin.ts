import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { AuditTrail } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { AuditList, AuditQuery } from './audit-schemas.ts'
import { callerOf, type Guard, requireScope } from './guard.ts'

/** What the audit trail's route is built from. */
export interface AuditOptions {
  readonly guard: Guard
  readonly audit: AuditTrail
}

/** A page, when none is asked for by its length. */
const standardPage = 100

/** Who changed what: everything for the operator, and for others what is about their own account. */
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
      const { limit = standardPage, account, ...asked } = request.query
      const isOperator = scopes.includes('admin')
      if (account !== undefined && !isOperator) throw othersAccounts()
      const whose = isOperator ? { accountName: account } : { accountName: own.name, accountId: own.id }
      const found = await audit.list({ ...asked, ...whose, limit: limit + 1 })
      return { object: 'list', data: found.slice(0, limit), has_more: found.length > limit }
    },
  )
}

function othersAccounts(): ApiError {
  const message = 'Only keys with the scope "admin" ask for an account. Leave "account" out to see your own.'
  return new ApiError(403, 'missing_scope', message, { param: 'account' })
}
