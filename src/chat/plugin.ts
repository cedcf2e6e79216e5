import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Key } from '../access/access.ts'
import { callerOf, type Guard, requireScope } from '../access/guard.ts'
import type { Character } from '../characters/character.ts'
import type { CharacterLibrary } from '../characters/library.ts'
import type { Lorebook } from '../characters/lorebook.ts'
import { cast, type UnknownCharacters } from '../characters/persona.ts'
import type { Persona, PromptSettings } from '../characters/prompt.ts'
import { ApiError, toApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { promptEstimate, replyEstimate } from '../limits/estimate.ts'
import { openAiRequestHeaders } from '../limits/headers.ts'
import { tellRequestsLeft } from '../limits/hooks.ts'
import type { Candidate } from '../models/candidate.ts'
import type { ModelRegistry } from '../models/registry.ts'
import { failedState, type Visit, type Visits } from '../usage/visit.ts'
import { ChatError, Completion, CompletionRequest } from './completion.ts'
import { checkMessages } from './messages.ts'
import { OpenReplies } from './open-replies.ts'
import { PromptReceipt } from './receipt-schema.ts'
import { UsageWatch } from './usage.ts'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly visits: Visits
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
  /** Lorebooks for every character; none without it. */
  readonly worldBooks?: () => readonly Lorebook[]
  /** Whether a caller may read the texts of a character's card; all may without it. */
  readonly mayRead?: (caller: Key, character: Character) => boolean
  /** Refuses a large request that has waited for the database, when there is more to do than can be done now. */
  readonly lookAgain: (request: FastifyRequest) => void
  /** Bytes. */
  readonly bodyLimit: number
  readonly sseKeepaliveMs: number
  /** How long open replies may take when the service stops. Milliseconds. */
  readonly shutdownGraceMs: number
  /** The `/v1` alias is outside the contract, and so not in the OpenAPI document. */
  readonly isAlias?: boolean
}

/** The chat completion interface (spec, section 4.3), and the receipt of a prompt. */
export const chatPlugin: FastifyPluginAsyncTypebox<ChatOptions> = async (app, options) => {
  const { guard, models, library, visits } = options
  const hide = options.isAlias === true

  const promptMaking = () => ({ settings: options.prompt, worldBooks: options.worldBooks?.() ?? [] })
  // How prompts are composed, and how replies are streamed, is loaded with the first request of the kind.
  let making: typeof import('./exchange.ts') | undefined
  let streaming: typeof import('./reply.ts') | undefined

  const replies = new OpenReplies(guard)
  app.addHook('preClose', async () => replies.endWithin(options.shutdownGraceMs))

  app.addHook('onRequest', (request) => guard.admitApiKey(request))
  app.addHook('onRequest', tellRequestsLeft(openAiRequestHeaders))
  app.addHook('onRequest', requireScope('chat'))

  app.post(
    '/chat/completions',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide,
        operationId: 'createChatCompletion',
        summary: 'Create a chat completion',
        description:
          'Answers the conversation as the character. With `stream: true` the reply is `text/event-stream`: chunk objects, then `data: [DONE]`. Parameters that are not listed here go to the model untouched.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: Completion }, ChatError, [...refusals, 400, 404, 413, 415, 502, 504]),
      },
    },
    async (request, reply) => {
      const { body } = request
      checkWellFormed('model', body.model)
      checkMessages(body.messages)
      // Before anything waits: a client that leaves meanwhile is noticed.
      const signal = replies.signalOf(reply)
      const route = models.resolve(body.model)
      const { persona, header } = await cast(body, library, options.characters, callerOf(request).account.id)
      options.lookAgain(request)
      if (header !== undefined) reply.header('x-character', header)
      request.facts['model'] = route.name

      making ??= await import('./exchange.ts')
      if (body.stream === true) streaming ??= await import('./reply.ts')
      const exchange = new making.Exchange(body, persona, promptMaking(), request.trace)
      const ask = (candidate: Candidate) => {
        const asked = exchange.ask(candidate)
        return asked instanceof Promise ? asked.then(({ request }) => request) : asked.request
      }
      let visit: Visit | undefined
      const tellOf = ({ candidate, retries }: { candidate: Candidate; retries: number }) => {
        const { name } = candidate.traits
        visit?.answeredBy(name, retries, candidate.configuredName)
        request.facts['model_used'] = name
        request.facts['retries'] = retries
        if (reply.sent) return
        reply.header('x-model', encodeURIComponent(name))
        const ignored = exchange.ignoredBy(candidate.model)
        if (ignored !== undefined) reply.header('x-ignored-params', ignored)
        const dropped = exchange.droppedFor(candidate)
        if (dropped !== undefined) reply.header('x-dropped', dropped)
      }

      try {
        // What is reserved is for the candidate that is asked first.
        const [first] = route.candidates
        if (!first) throw new Error('the route has no candidate')
        const { body: asked } = await ask(first)
        const entered = await visits.enter({
          id: request.id,
          key: callerOf(request),
          model: body.model,
          character: played(persona),
          promptTokens: () => promptEstimate(asked),
          replyTokens: replyEstimate(asked),
        })
        visit = entered
        reply.headers(entered.headers)
        // Again, since the models may have been replaced while this waited.
        const current = models.resolve(body.model)
        if (streaming && body.stream === true) {
          const usage = body.stream_options?.include_usage === true ? new UsageWatch() : null
          const opening = current
            .open(async (candidate) => {
              const request = await ask(candidate)
              usage?.begin(request.body.messages)
              return request
            }, signal)
            .then((opened) => {
              tellOf(opened)
              return opened.events
            })
          await streaming.sendEvents(reply, opening, {
            usage,
            visit: entered,
            keepaliveMs: options.sseKeepaliveMs,
            onEnd: (state, failure) => {
              request.facts['state'] = state
              if (failure && failure.status >= 500)
                request.log.error({ request_id: request.id, err: failure.cause ?? failure }, failure.code)
              return entered.end(failure ? failedState(failure) : state)
            },
          })
          return reply
        }
        const answer = await current.complete(ask, signal)
        tellOf(answer)
        const { choices, usage } = answer.completion
        const state = choices[0]?.finish_reason ?? 'stop'
        request.facts['state'] = state
        if (usage) entered.meter.tell(usage, true)
        else for (const { message } of choices) entered.meter.say(message)
        await entered.end(state)
        return reply.type('application/json; charset=utf-8').send(answer.bytes ?? JSON.stringify(answer.completion))
      } catch (thrown) {
        const error = toApiError(thrown)
        request.facts['state'] = error.code
        await visit?.end(failedState(error))
        throw error
      }
    },
  )

  app.post(
    '/chat/prompt',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide,
        operationId: 'createChatPrompt',
        summary: 'Show what a model would be told',
        description:
          'Takes the same body as a completion and asks no model: the exact messages, the tokens of each part, which lore fired, what was left out and why.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: PromptReceipt }, ChatError, [...refusals, 400, 404, 413, 415]),
      },
    },
    async (request, reply) => {
      const { body } = request
      checkWellFormed('model', body.model)
      checkMessages(body.messages)
      const route = models.resolve(body.model)
      const casting = await cast(body, library, options.characters, callerOf(request).account.id)
      options.lookAgain(request)
      if (casting.header !== undefined) reply.header('x-character', casting.header)
      const [candidate] = route.candidates
      if (!candidate) throw new Error('the route has no candidate')
      const [{ droppedHeader, Exchange }, { receiptOf }] = await Promise.all([
        import('./exchange.ts'),
        import('./receipt.ts'),
      ])
      const asked = await new Exchange(body, casting.persona, promptMaking()).ask(candidate)
      const { character } = casting
      const isShown = !character || (options.mayRead?.(callerOf(request), character) ?? true)
      reply.header('x-model', encodeURIComponent(candidate.traits.name))
      const dropped = droppedHeader(asked.composition.dropped)
      if (dropped !== undefined) reply.header('x-dropped', dropped)
      return await receiptOf({
        model: route.name,
        upstreamId: candidate.traits.upstreamId,
        casting,
        body,
        asked,
        isShown,
      })
    },
  )
}

/** Who is played, as the ledger names it; null when it is nobody. */
function played({ name, digest }: Persona): string | null {
  return name === null || digest === undefined ? name : `${name}@sha256:${digest}`
}

/**
 * Refuses half a character where a text goes into a reply header, which cannot carry it.
 * @throws ApiError 400 that names the field
 */
function checkWellFormed(param: string, text: string): void {
  if (text.isWellFormed()) return
  const message = `The field "${param}" has half of a surrogate pair. Send whole characters.`
  throw new ApiError(400, 'invalid_field', message, { param })
}
