import { callerOf } from '../access/guard.ts'
import { pinnedName } from '../characters/library/character.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import { toApiError } from '../errors.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { promptEstimate, replyEstimate } from '../limits/estimate.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import { ChatError, Completion, recordedReason } from '../openai/completion.ts'
import { CompletionRequest } from '../openai/completion-request.ts'
import { failedState, type Visit } from '../usage/visit.ts'
import { castRequest, checkRequest } from './casting.ts'
import type { OpenReplies } from './open-replies.ts'
import { type ChatOptions, promptMaking } from './options.ts'
import { UsageWatch } from './usage.ts'

/** Registers `POST /chat/completions` (spec, section 4.3). @param replies keeps those that are not complete */
export function completionRoute(app: TypedInstance, options: ChatOptions, replies: OpenReplies): void {
  const { models, visits } = options
  // How prompts are composed, and how replies are streamed, is loaded with the first request of the kind.
  let making: typeof import('./exchange.ts') | undefined
  let streaming: typeof import('./reply.ts') | undefined

  app.post(
    '/chat/completions',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide: options.isAlias === true,
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
      checkRequest(body)
      // Before anything waits: a client that leaves meanwhile is noticed.
      const signal = replies.signalOf(reply)
      const route = models.resolve(body.model)
      const { persona } = await castRequest(request, reply, body, options)
      request.facts['model'] = route.name

      making ??= await import('./exchange.ts')
      if (body.stream === true) streaming ??= await import('./reply.ts')
      const exchange = new making.Exchange(body, persona, promptMaking(options), request.trace)
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
            clock: options.clock,
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
        const state = recordedReason(choices[0]?.finish_reason)
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
}

/** Who is played, as the ledger names it; null when it is nobody. */
function played({ name, digest }: Persona): string | null {
  return name === null || digest === undefined ? name : pinnedName(name, digest)
}
