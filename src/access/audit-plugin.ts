import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { type AuditRecord, type AuditTrail, auditActions } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { answers, choice, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { maxExpirySeconds } from './access.ts'
import { callerOf, type Guard, requireScope } from './guard.ts'
import { sendPage } from './pages.ts'

const exampleId = 'audit_0f8c2e6a9b7d4c1e8f3a5b6c7d8e9f00'
const textOrNull = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const facts = (description: string) =>
  Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()], { description })

/** One record of the audit trail. */
const AuditRecordBody = Type.Object(
  {
    object: Type.Literal('audit_record'),
    id: Type.String(),
    at: Type.Integer({ description: 'Unix seconds.' }),
    actor: Type.Object({
      kind: Type.String({ description: 'The actor: `key`, `command_line`, or `service` for its own work.' }),
      key: textOrNull('The prefix of the key; null for other actors.'),
      account: textOrNull('The name of the account of the key.'),
    }),
    from: textOrNull("The caller's address."),
    action: Type.String({ description: `One of ${auditActions.map((name) => `\`${name}\``).join(', ')}.` }),
    target: textOrNull(
      'The prefix of a key, the name of an account or a character, `A>B` for a share (with `#tag`), or null.',
    ),
    before: facts('The values before the change.'),
    after: facts('The values after the change.'),
  },
  {
    title: 'AuditRecord',
    examples: [
      {
        object: 'audit_record',
        id: exampleId,
        at: 1760000000,
        actor: { kind: 'key', key: 'cv_ab12cd34', account: 'owner' },
        from: '203.0.113.7',
        action: 'key.created',
        target: 'cv_ef56gh78',
        before: null,
        after: {
          account: 'owner',
          name: 'phone',
          scopes: ['chat'],
          expires: null,
          revoked: null,
          limits: {},
          models: null,
        },
      },
    ],
  },
)

const AuditList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(AuditRecordBody), has_more: Type.Boolean() },
  { title: 'AuditList' },
)

const AuditQuery = Type.Object({
  since: Type.Optional(
    Type.Integer({
      description: 'Only records from this time on, in Unix seconds.',
      minimum: 0,
      maximum: maxExpirySeconds,
      errorMessage: 'send a moment as whole Unix seconds, once',
      examples: [1760000000],
    }),
  ),
  account: Type.Optional(
    Type.String({
      description: 'Only records about the account of this name, for keys with the scope `admin`.',
      examples: ['greenhouse-app'],
      errorMessage: 'send it once',
    }),
  ),
  action: Type.Optional(
    choice(auditActions, {
      description: 'Only this action.',
      errorMessage: `send one of ${auditActions.join(', ')}, once`,
    }),
  ),
  limit: Type.Optional(
    Type.Integer({
      description: 'The maximum number of records; the default is 100.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  after: Type.Optional(
    Type.String({ description: 'The id of the last record of the previous page.', errorMessage: 'send it once' }),
  ),
})

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
