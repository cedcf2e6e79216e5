import { Type } from '@sinclair/typebox'
import { choice } from '../http/openapi-fields.ts'
import { groupings } from './report.ts'
import { allStates } from './states.ts'

const id = 'req_6f1c0a5be2d94f7f8a3000000000002a'
const orNull = (type: 'string' | 'integer', description: string) =>
  Type.Unsafe<string | number | null>({ type: [type, 'null'], description })

/** A chat request in `GET /requests/{id}`. */
export const RequestBody = Type.Object(
  {
    object: Type.Literal('request'),
    id: Type.String(),
    created: Type.Integer({ description: 'Unix seconds.' }),
    key: Type.String({ description: 'The prefix of the key of the request.' }),
    model: Type.String({ description: 'The model as the request named it.' }),
    model_used: orNull('string', 'The model that answered, by its name in this service.'),
    character: orNull('string', 'The character that was played, with the digest of the card.'),
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    tokens_exact: Type.Boolean({ description: 'Whether the model counted the tokens; otherwise they are estimated.' }),
    first_token_ms: orNull(
      'integer',
      'Milliseconds until the first event of a stream; null for a whole reply, and if no event came.',
    ),
    total_ms: Type.Integer({ description: 'Milliseconds.' }),
    retries: Type.Integer(),
    state: Type.String({
      description: 'The end of the request: `stop`, `length`, `client_gone`, `timeout` …; or `running`.',
    }),
    upstream_truncated: orNull(
      'string',
      "The tokens of the prompt by the upstream's count and by ours, such as `2048/8190`, if ours are more than 1,024 and the upstream counted less than half of them: then the upstream has cut the prompt. Otherwise null.",
    ),
  },
  {
    title: 'Request',
    examples: [
      {
        object: 'request',
        id,
        created: 1795166122,
        key: 'cv_ab12cd34',
        model: 'best',
        model_used: 'claude',
        character: 'Fern@sha256:0d0c4c7f5e2f4f0b8a3d8f1c5b6a79e8d7c6b5a4938271605f4e3d2c1b0a9988',
        prompt_tokens: 11,
        completion_tokens: 7,
        tokens_exact: true,
        first_token_ms: 41,
        total_ms: 380,
        retries: 0,
        state: 'stop',
        upstream_truncated: null,
      },
    ],
  },
)

export const RequestPath = Type.Object({
  id: Type.String({ description: 'The `x-request-id` of a chat reply.', examples: [id] }),
})

/** One line of an account's usage; its first field has the name of the grouping. */
const UsageLineBody = Type.Object(
  {
    day: Type.Optional(Type.String({ description: 'In UTC.' })),
    model: Type.Optional(Type.String()),
    key: Type.Optional(Type.String({ description: 'The prefix of the key.' })),
    character: Type.Optional(orNull('string', 'The character of the line; null for requests without one.')),
    requests: Type.Integer({ description: 'The requests that have ended.' }),
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    failed: Type.Integer({
      description:
        'The requests that got no complete answer because of an error. A caller that disconnected is not counted.',
    }),
  },
  {
    title: 'UsageLine',
    examples: [{ day: '2026-11-20', requests: 12, prompt_tokens: 900, completion_tokens: 400, failed: 1 }],
  },
)

export const UsageList = Type.Object(
  { object: Type.Literal('list'), data: Type.Array(UsageLineBody), has_more: Type.Boolean() },
  { title: 'UsageList' },
)

const moment = (description: string, example: string) =>
  Type.Optional(Type.String({ description, examples: [example], errorMessage: 'send it once' }))

export const RequestList = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(RequestBody),
    has_more: Type.Boolean({
      description: 'Whether there are more requests; for the next page, pass the last `id` as `after`.',
    }),
  },
  { title: 'RequestList' },
)

const name = (description: string, ...examples: readonly string[]) =>
  Type.Optional(
    Type.String({ description, ...(examples.length > 0 ? { examples } : {}), errorMessage: 'send it once' }),
  )

export const RequestsQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      description: 'The maximum number of requests; the default is 100.',
      minimum: 1,
      maximum: 1000,
      errorMessage: 'send a whole number from 1 to 1000, once',
      examples: [20],
    }),
  ),
  after: name('The last `id` of the previous page.'),
  from: moment('The first day, or a moment, in UTC; by default as far back as the ledger is kept.', '2026-11-01'),
  to: moment('The last day, or the moment of the end (exclusive), in UTC; the default is now.', '2026-11-30'),
  model: name('Only requests for this model.', 'best'),
  state: Type.Optional(
    choice(allStates, {
      description: 'Only requests in this state.',
      errorMessage: `send one of ${allStates.join(', ')}, once`,
    }),
  ),
  account: name('The name of another account, for keys with the scope `admin`.'),
})

export const UsageQuery = Type.Object({
  from: moment('The first day, or a moment, in UTC; the default is 29 days before the last day.', '2026-11-01'),
  to: moment('The last day, or the moment of the end (exclusive), in UTC; the default is now.', '2026-11-30'),
  by: Type.Optional(
    choice(groupings, {
      description: 'The subject of each line; the default is `day`.',
      errorMessage: `send one of ${groupings.join(', ')}, once`,
    }),
  ),
})
