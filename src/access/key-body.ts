import { Kind, type Static, type TInteger, Type } from '@sinclair/typebox'
import { limitNames, maxLimit } from '../limit-values.ts'
import { type Key, maxExpirySeconds, maxOverlapSeconds, type Scope, scopes } from './access.ts'
import { endOf } from './refusals.ts'

const exampleId = 'key_0f8c2e6a9b7d4c1e8f3a5b6c7d8e9f00'

const scope = Type.Unsafe<Scope>({
  ...Type.Union(scopes.map((name) => Type.Literal(name))),
  [Kind]: 'Union',
  errorMessage: `send one of ${scopes.join(', ')}`,
})

const limit: TInteger = Type.Integer({
  minimum: 0,
  maximum: maxLimit,
  errorMessage: `send a whole number from 0 to ${maxLimit}`,
})

const limits = Type.Object(Object.fromEntries(limitNames.map((name) => [name, Type.Optional(limit)])), {
  additionalProperties: false,
  description: 'The limits of the key. The limits of the account apply too, so a key cannot raise them.',
})

const models = (description: string) =>
  Type.Union([Type.Array(Type.String({ errorMessage: 'send the id of a model' })), Type.Null()], {
    description,
    errorMessage:
      'send a list of ids of models, in which "local/*" is every id that begins with local/, or null for all',
  })

const moment = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description })

const listed = {
  object: Type.Literal('key'),
  id: Type.String(),
  prefix: Type.String({ description: 'The beginning of the key, to recognise it.' }),
  name: Type.Union([Type.String(), Type.Null()]),
  scopes: Type.Array(scope),
  created: Type.Integer({ description: 'Unix seconds.' }),
  expires: moment(
    'The end of the key in Unix seconds, or null; a rotated key ends at the end of its overlap at the latest.',
  ),
  last_used: moment('The approximate time of the last use, in Unix seconds.'),
  limits,
  models: models('The models that the key may use, within those of its account; null for all models of the account.'),
}

const example = {
  object: 'key',
  id: exampleId,
  prefix: 'cv_ab12cd34',
  name: 'phone',
  scopes: ['chat'],
  created: 1760000000,
  expires: null,
  last_used: null,
  limits: { requests_per_minute: 60 },
  models: ['understudy', 'local/*'],
}

/** A key as callers see it. */
export const KeyBody = Type.Object(listed, { title: 'Key', examples: [example] })
export type KeyBody = Static<typeof KeyBody>

/** A new key with its secret. */
export const NewKeyBody = Type.Object(
  { ...listed, key: Type.String({ description: 'The key with its secret; no other reply has it.' }) },
  { title: 'NewKey', examples: [{ ...example, key: 'cv_…' }] },
)

/** A page of the working keys of an account. */
export const KeyList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(KeyBody), has_more: Type.Boolean() },
  { title: 'KeyList' },
)

/** The query of the list of keys. */
export const KeyListQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description:
        'The maximum number of keys; the default is 1,000. Keys with long lists of models come on shorter pages.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  after: Type.Optional(
    Type.String({ description: 'The id of the last key of the previous page.', errorMessage: 'send it once' }),
  ),
})

/** The body of a request for a new key. */
export const KeyRequestBody = Type.Object(
  {
    scopes: Type.Array(scope, { minItems: 1, errorMessage: `send a list of one or more of ${scopes.join(', ')}` }),
    name: Type.Optional(Type.Union([Type.String(), Type.Null()], { errorMessage: 'send a text' })),
    expires: Type.Optional(
      Type.Union([Type.Integer({ maximum: maxExpirySeconds }), Type.Null()], {
        description: 'The end of the key in Unix seconds, in the future; by default the key has no end.',
        errorMessage: 'send a moment to come as whole Unix seconds, not in quotes',
      }),
    ),
    limits: Type.Optional(limits),
    models: Type.Optional(
      models(
        'The ids of the models that the key may use, as requests name them; `local/*` is every id that begins with `local/`. Without this field, or with null, all models. The service does not check whether the models exist.',
      ),
    ),
  },
  {
    title: 'KeyRequest',
    additionalProperties: false,
    examples: [
      { name: 'phone', scopes: ['chat'], limits: { requests_per_minute: 60 }, models: ['understudy', 'local/*'] },
    ],
  },
)

/** The body of a request to rotate a key. */
export const RotationBody = Type.Object(
  {
    overlap_seconds: Type.Integer({
      minimum: 0,
      maximum: maxOverlapSeconds,
      description: 'Seconds that the old key works beside the new one; 0 ends the old key immediately.',
      errorMessage: `send a whole number from 0 to ${maxOverlapSeconds}`,
    }),
  },
  { title: 'KeyRotation', additionalProperties: false, examples: [{ overlap_seconds: 86400 }] },
)

export const KeyPath = Type.Object({ id: Type.String({ examples: [exampleId] }) })

/** A key as callers see it. */
export function keyBody(key: Key): KeyBody {
  const { id, prefix, name, scopes, created, lastUsed: last_used, limits } = key
  const expires = endOf(key)
  const models = key.models && [...key.models]
  return { object: 'key', id, prefix, name, scopes: [...scopes], created, expires, last_used, limits, models }
}
