import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AccessError, type AccessStore, findAccount, type Key } from '../access/access.ts'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { ApiError, invalidField, overloaded } from '../errors.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { unixSeconds } from '../time.ts'
import { type LedgerRequest, type UsageReader, usageRow } from './report.ts'
import { RequestBody, RequestList, RequestPath, RequestsQuery, UsageList, UsageQuery } from './schemas.ts'

/** The objects that the routes of usage use. */
export interface UsageOptions {
  readonly guard: Guard
  readonly usage: UsageReader
  readonly access: AccessStore
  /** Writes the records that the ledger holds in memory, so that a request is visible as soon as it has ended. */
  readonly flush?: () => Promise<void>
}

/** Requests in a reply, if the query has no `limit`. */
const defaultLimit = 100
/** Maximum lines of a reply. Callers name models, so there may be any number of lines. */
const maxLines = 1000

/** `GET /requests`, `GET /requests/{id}` and `GET /usage`. */
export const usagePlugin: FastifyPluginAsyncTypebox<UsageOptions> = async (app, options) => {
  app.addHook('onRequest', options.guard.admitApiKey)
  app.addHook('onRequest', requireScope('chat', 'keys', 'admin'))
  const reports = new Reports()
  addRequestRoutes(app, options, reports)
  addUsageRoute(app, options, reports)
}

/**
 * Writes the records that the ledger still has in memory to the database. A failure is ignored: the ledger tries again, and the
 * reply has only the records that are written.
 */
const flushed = ({ flush }: UsageOptions) => flush?.().catch(() => undefined)

function addRequestRoutes(app: TypedInstance, options: UsageOptions, reports: Reports): void {
  const { usage, access } = options

  app.get(
    '/requests',
    {
      schema: {
        operationId: 'listRequests',
        summary: "List your account's chat requests",
        description:
          'Lists the chat requests of all keys of your account, newest first, as far back as the ledger is kept. If `has_more` is true, pass the last `id` as `after` for the next page.',
        tags: ['usage'],
        security,
        querystring: RequestsQuery,
        response: answers({ 200: RequestList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { limit = defaultLimit, after: id, from, to, model, state, account: name } = request.query
      const { readPeriod } = await import('./period.ts')
      const period = readPeriod({ from, to }, unixSeconds(), 0)
      const account = await requestedAccount(access, callerOf(request), name)
      await flushed(options)
      const after = id === undefined ? undefined : await usage.find(account, id)
      if (id !== undefined && !after) throw unknownPlace()
      const conditions = { ...(model === undefined ? {} : { model }), ...(state === undefined ? {} : { state }) }
      const filter = { account, ...period, ...conditions, ...(after ? { after } : {}) }
      const list = () => usage.list(filter, limit + 1)
      // A search waits in the queue of reports, because it may read any number of other requests between two matches.
      const isSearch = Object.keys(conditions).length > 0
      const found = await (isSearch ? reports.make(callerOf(request).account.id, list) : list())
      return { object: 'list' as const, data: found.slice(0, limit).map(requestBody), has_more: found.length > limit }
    },
  )

  app.get(
    '/requests/:id',
    {
      schema: {
        operationId: 'getRequest',
        summary: 'Get the record of a chat request',
        description: 'Returns the record of a chat request of your account. Texts are never stored.',
        tags: ['usage'],
        security,
        params: RequestPath,
        response: answers({ 200: RequestBody }, ChatError, [...refusals, 404]),
      },
    },
    async (request) => {
      await flushed(options)
      const found = await usage.find(callerOf(request).account.id, request.params.id)
      if (!found) throw unknownRequest()
      return requestBody(found)
    },
  )
}

function addUsageRoute(app: TypedInstance, options: UsageOptions, reports: Reports): void {
  app.get(
    '/usage',
    {
      schema: {
        operationId: 'getUsage',
        summary: 'Sum up the usage of your account',
        description:
          'Sums up the ended chat requests of all keys of your account, by default of the last 30 days, at most as far back as the ledger is kept. Days are in order, other lines by their tokens, highest first. A reply has at most 1,000 lines. If `has_more` is true, there are more lines: ask for a shorter time.',
        tags: ['usage'],
        security,
        querystring: UsageQuery,
        response: answers({ 200: UsageList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { by = 'day', ...days } = request.query
      const { readPeriod } = await import('./period.ts')
      const period = readPeriod(days, unixSeconds())
      await flushed(options)
      const account = callerOf(request).account.id
      const lines = await reports.make(account, () => options.usage.sum({ by, account, ...period }, maxLines + 1))
      const data = lines.slice(0, maxLines).map((line) => usageRow(by, line))
      return { object: 'list', data, has_more: lines.length > maxLines }
    },
  )
}

/**
 * The id of the account that a request is about: the caller's account, or the account that an operator names.
 * @param name the query parameter `account`
 * @throws ApiError 403 if a key without the scope `admin` sends a name, 400 for a name that no account has
 */
async function requestedAccount(store: AccessStore, caller: Key, name: string | undefined): Promise<number> {
  if (name === undefined) return caller.account.id
  if (!caller.scopes.includes('admin')) {
    const message = 'Only a key with the scope "admin" sees other accounts. Leave out the query parameter "account".'
    throw new ApiError(403, 'missing_scope', message, { param: 'account' })
  }
  try {
    return (await findAccount(store, name)).id
  } catch (error) {
    if (!(error instanceof AccessError)) throw error
    throw invalidField('account', 'is not the name of an account here', 'The value of')
  }
}

function requestBody(request: LedgerRequest) {
  return {
    object: 'request' as const,
    id: request.id,
    created: request.created,
    key: request.keyPrefix,
    model: request.model,
    model_used: request.modelUsed,
    character: request.character,
    prompt_tokens: request.promptTokens,
    completion_tokens: request.completionTokens,
    tokens_exact: request.tokensExact,
    first_token_ms: request.firstTokenMs,
    total_ms: request.totalMs,
    retries: request.retries,
    state: request.state,
    upstream_truncated: request.upstreamTruncated ?? null,
  }
}

/** The same refusal for a request of another account and for a request that was removed. */
function unknownPlace(): ApiError {
  return invalidField(
    'after',
    'is not the id of a request of this account, or the request was removed; begin without it',
    'The value of',
  )
}

/** The same refusal for a request of another account and for a request that was removed. */
function unknownRequest(): ApiError {
  const message = 'Your account has no such request. Send the x-request-id of a chat reply; old requests are removed.'
  return new ApiError(404, 'request_not_found', message, { param: 'id' })
}

/** Maximum reports of one account: one that is being made, and one that waits. */
const maxReports = 2

/** The queue of one account's reports. */
interface Queue {
  length: number
  last: Promise<unknown>
}

/**
 * Makes one report of an account at a time. A report may read millions of rows: the sums of a period, or, for a search, all
 * requests of the period. Many reports in parallel would take time and memory from all other requests.
 */
export class Reports {
  readonly #queues = new Map<number, Queue>()

  /**
   * Makes a report after the account's earlier reports.
   * @throws ApiError 503 if the account's queue is full; and the errors of `make`
   */
  async make<T>(account: number, make: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(account) ?? { length: 0, last: Promise.resolve() }
    if (queue.length >= maxReports) {
      const message = `${maxReports} usage reports or searches of your account are in progress. Try again when they are done.`
      throw overloaded(message)
    }
    this.#queues.set(account, queue)
    queue.length++
    const made = queue.last.then(make)
    queue.last = made.catch(() => undefined)
    try {
      return await made
    } finally {
      queue.length--
      if (queue.length === 0) this.#queues.delete(account)
    }
  }
}
