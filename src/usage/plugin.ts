import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import { ApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { unixSeconds } from '../time.ts'
import { type LedgerRequest, type UsageReader, usageRow } from './report.ts'
import { RequestBody, RequestPath, UsageList, UsageQuery } from './schemas.ts'

/** What the reports are built from. */
export interface UsageOptions {
  readonly guard: Guard
  readonly usage: UsageReader
  /** Has what the ledger still holds in memory written, so that a request is seen as soon as it has ended. */
  readonly flush?: () => Promise<void>
}

/** How many lines one answer has at most. Models are named by callers: there may be any number of them. */
const mostLines = 1000

/** What has become of a chat request, and what the caller's account used. */
export const usagePlugin: FastifyPluginAsyncTypebox<UsageOptions> = async (app, { guard, usage, flush }) => {
  app.addHook('onRequest', guard.admitApiKey)

  // What cannot be written now waits until it can be, and what is there is told all the same.
  const written = () => flush?.().catch(() => undefined)

  app.get(
    '/requests/:id',
    {
      onRequest: requireScope('chat'),
      schema: {
        operationId: 'getRequest',
        summary: 'Get what became of a chat request',
        description: "One of your account's, whichever of its keys it came with. Texts are never kept.",
        tags: ['usage'],
        security,
        params: RequestPath,
        response: answers({ 200: RequestBody }, ChatError, [...refusals, 404]),
      },
    },
    async (request) => {
      await written()
      const found = await usage.find(callerOf(request).account.id, request.params.id)
      if (!found) throw unknownRequest()
      return requestBody(found)
    },
  )

  app.get(
    '/usage',
    {
      onRequest: requireScope('chat', 'admin'),
      schema: {
        operationId: 'getUsage',
        summary: 'Sum up what your account used',
        description:
          'The chat requests of all keys of your account that have ended, as far back as the ledger is kept. Days come in order, anything else by its tokens, the most first. With `has_more` there are more lines than are shown: ask for a shorter time.',
        tags: ['usage'],
        security,
        querystring: UsageQuery,
        response: answers({ 200: UsageList }, ChatError, [...refusals, 400]),
      },
    },
    async (request) => {
      const { by = 'day', ...asked } = request.query
      const { readPeriod } = await import('./period.ts')
      const period = readPeriod(asked, unixSeconds())
      await written()
      const lines = await usage.sum({ by, account: callerOf(request).account.id, ...period })
      const data = lines.slice(0, mostLines).map((line) => usageRow(by, line))
      return { object: 'list', data, has_more: lines.length > mostLines }
    },
  )
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
  }
}

/** The same for a request of another account and for one that has been forgotten. */
function unknownRequest(): ApiError {
  const message = 'Your account has no such request. Send the x-request-id of a chat reply; old ones are forgotten.'
  return new ApiError(404, 'request_not_found', message, { param: 'id' })
}
