import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { type Static, Type } from '@sinclair/typebox'
import type { Key } from '../access/access.ts'
import { callerOf, type Guard } from '../access/guard.ts'
import { answers, choice, refusals, security } from '../http/openapi-fields.ts'
import { type Limits, limitNames } from '../limit-values.ts'
import { ChatError } from '../openai/completion.ts'
import type { Limiter } from './limiter.ts'
import { type Counters, type Standing, standingsOf } from './standing.ts'

/** The objects and settings that the route of limits uses. */
export interface LimitsOptions {
  readonly guard: Guard
  readonly limiter: Pick<Limiter, 'readTallies'>
  /** The default limits of accounts, from the setting `LIMITS`. */
  readonly settings: Limits
  readonly counters: Counters
  /** Writes the records that the ledger has in memory, so that spent tokens count as soon as a request has ended. */
  readonly flush: () => Promise<void>
}

const limitOwners: readonly Standing['of'][] = ['account', 'maker', 'key']

const integerOrNull = (description: string) => Type.Unsafe<number | null>({ type: ['integer', 'null'], description })

const LimitBody = Type.Object(
  {
    limit: choice(limitNames, {}),
    of: choice(limitOwners, {
      description:
        "Whose limit it is: the account's, over all its keys; the maker's, over the limited key that made this key and all its keys; or the key's own. All apply.",
    }),
    value: integerOrNull('Null where there is no limit.'),
    used: integerOrNull(
      "The current use. Tokens of a day and a month include the reservations of running requests. Requests and tokens of a minute, and changes, are counted only under a limit; with PostgreSQL, chats only under a limit of chats or tokens. For plants, characters and bytes it is the account's number, or null for more than 10,000 plants without a limit.",
    ),
    resets: integerOrNull(
      'The time when the full limit is available again, in Unix seconds; null without a limit, and for limits that time does not restore.',
    ),
  },
  {
    title: 'Limit',
    examples: [{ limit: 'tokens_per_day', of: 'account', value: 1000, used: 12, resets: 1795219200 }],
  },
)

const LimitedKey = Type.Object(
  {
    account: Type.String({ description: 'The name of the account that the key belongs to.' }),
    prefix: Type.String({ description: 'The beginning of the key, to recognise it.' }),
    name: Type.Union([Type.String(), Type.Null()]),
    scopes: Type.Array(Type.String(), { description: 'The scopes of the key.' }),
    expires: integerOrNull('The end of the key in Unix seconds; null if it has none.'),
  },
  {
    title: 'LimitedKey',
    description: 'The key that the request came with.',
    examples: [{ account: 'owner', prefix: 'cv_ab12cd34', name: null, scopes: ['chat'], expires: null }],
  },
)

const LimitList = Type.Object(
  { object: Type.Literal('list'), key: LimitedKey, data: Type.Array(LimitBody), has_more: Type.Literal(false) },
  { title: 'LimitList' },
)

/** `GET /limits`: the limits of the caller's key and account, and how far each limit is used. */
export const limitsPlugin: FastifyPluginAsyncTypebox<LimitsOptions> = async (app, options) => {
  const { guard, limiter, settings, counters, flush } = options
  app.addHook('onRequest', guard.admitApiKey)

  app.get(
    '/limits',
    {
      schema: {
        operationId: 'listLimits',
        summary: 'List the limits of your key and your account',
        description:
          'Lists every limit of the account and of the key with its use, those of the limited key that made the key, and the account, the scopes and the end of the key. Any key may ask.',
        tags: ['usage'],
        security,
        response: answers({ 200: LimitList }, ChatError, refusals),
      },
    },
    async (request) => {
      // If this write fails, the reply shows the records that are written, and the ledger retries later.
      await flush().catch(() => undefined)
      const key = callerOf(request)
      const data = await standingsOf(key, settings, limiter, counters)
      return { object: 'list' as const, key: toLimitedKey(key), data: [...data], has_more: false as const }
    },
  )
}

/** The key in the reply. A key may have two ends, its expiry and the end of its overlap with a new key: the earlier counts. */
function toLimitedKey({ account, prefix, name, scopes, expires, revoked }: Key): Static<typeof LimitedKey> {
  const ends = [expires, revoked].filter((end) => end !== null)
  return {
    account: account.name,
    prefix,
    name,
    scopes: [...scopes],
    expires: ends.length === 0 ? null : Math.min(...ends),
  }
}
