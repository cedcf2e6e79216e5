import { Kind, Type, TypeRegistry } from '@sinclair/typebox'
import { type AuditAction, auditActions } from '../audit/record.ts'
import { latestExpiry } from './access.ts'

const id = 'audit_0f8c2e6a9b7d4c1e8f3a5b6c7d8e9f00'
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
      kind: Type.String({ description: '`key`, `command_line`, or `service`: what it does by itself.' }),
      key: textOrNull('The prefix of the key; null beside the other kinds.'),
      account: textOrNull('The name of its account.'),
    }),
    from: textOrNull("The caller's address."),
    action: Type.String({ description: `One of ${auditActions.map((name) => `\`${name}\``).join(', ')}.` }),
    target: textOrNull("A key's prefix, an account's or a character's name, `A>B` of a share (with `#tag`), or null."),
    before: facts('What has changed, as it was.'),
    after: facts('The same as it is since.'),
  },
  {
    title: 'AuditRecord',
    examples: [
      {
        object: 'audit_record',
        id,
        at: 1760000000,
        actor: { kind: 'key', key: 'cv_ab12', account: 'owner' },
        from: '203.0.113.7',
        action: 'key.created',
        target: 'cv_cd34',
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

export const AuditList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(AuditRecordBody), has_more: Type.Boolean() },
  { title: 'AuditList' },
)

// One enum, and not a union of constants, for whoever reads the OpenAPI document.
TypeRegistry.Set('AuditAction', (_schema, value) => auditActions.some((action) => action === value))

export const AuditQuery = Type.Object({
  since: Type.Optional(
    Type.Integer({
      description: 'Only what happened at this moment or later: Unix seconds.',
      minimum: 0,
      maximum: latestExpiry,
      errorMessage: 'send a moment as whole Unix seconds, once',
      examples: [1760000000],
    }),
  ),
  account: Type.Optional(
    Type.String({
      description: 'Only what is about the account of this name; for keys with the scope `admin`.',
      examples: ['greenhouse-app'],
      errorMessage: 'send it once',
    }),
  ),
  action: Type.Optional(
    Type.Unsafe<AuditAction>({
      [Kind]: 'AuditAction',
      type: 'string',
      enum: auditActions,
      description: 'Only this action.',
      errorMessage: `send one of ${auditActions.join(', ')}, once`,
    }),
  ),
  limit: Type.Optional(
    Type.Integer({
      description: 'Maximum number of records to return; 100 without it.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  after: Type.Optional(
    Type.String({ description: 'The id of the last record of the page before.', errorMessage: 'send it once' }),
  ),
})
