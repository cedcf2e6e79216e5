import { callerOf } from '../access/guard.ts'
import { mayRead } from '../characters/library/character.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { promptEstimate } from '../limits/estimate.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import { ChatError } from '../openai/completion.ts'
import { CompletionRequest } from '../openai/completion-request.ts'
import { jsonOf } from '../work.ts'
import { castRequest, wantedRequest } from './casting.ts'
import type { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { PromptReceipt } from './receipt-schema.ts'
import { requestTextsOf } from './request-texts.ts'

/** Characters of a receipt for each token of its prompt, about. */
const charactersPerToken = 4

/** Registers `POST /chat/prompt`: the receipt of a prompt, for which no model is asked. */
export function promptRoute(app: TypedInstance, options: ChatOptions, replies: OpenReplies): void {
  app.post(
    '/chat/prompt',
    {
      bodyLimit: options.bodyLimit,
      schema: {
        hide: options.isAlias === true,
        operationId: 'createChatPrompt',
        summary: 'Show the prompt for a model',
        description:
          'Takes the body of a completion and asks no model. Returns the exact messages, the tokens of each part, the lore that fired, and the parts that were left out with the reason. It counts in `chat_at_once`, and the tokens of its prompt in `tokens_per_minute`, but in no day, month or report of usage.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: PromptReceipt }, ChatError, [...refusals, 400, 404, 413, 415]),
      },
    },
    async (request, reply) => {
      const wanted = wantedRequest(request.body, options.models, callerOf(request))
      const { body } = wanted
      const signal = replies.signalOf(reply)
      const casting = await castRequest(request, reply, wanted, options)
      const { route } = casting
      const [{ droppedHeader, Exchange }, { receiptOf }] = await Promise.all([
        import('./exchange.ts'),
        import('./receipt.ts'),
      ])
      const work = options.workOf(request, signal)
      const texts = await requestTextsOf(request, body, casting, work)
      const making = { settings: options.prompt, worldBooks: options.library.worldBooks, texts }
      const exchange = new Exchange(body, casting.persona, making, work)
      const candidate = await route.findFirstUsable(exchange.requestFor, signal)
      const asked = await exchange.ask(candidate)
      const { character } = casting
      const isShown = !character || mayRead(callerOf(request), character)
      const held = await options.limiter.reserve(callerOf(request), () => promptEstimate(asked.request.body), 'prompt')
      // What fails has cost as much.
      let tokens = held.tokens
      try {
        const model = { model: route.name, upstreamId: candidate.traits.upstreamId }
        const refusedRegexes = texts?.refusedRegexes ?? []
        const receipt = await receiptOf({ ...model, casting, body, asked, refusedRegexes, isShown })
        tokens = receipt.tokens.total
        reply.header('x-model', encodeURIComponent(candidate.traits.name))
        reply.headers(droppedHeader(asked.composition.dropped))
        if (held.allowance) reply.headers(openAiTokenHeaders(held.allowance))
        const text = await work.run('messages', jsonOf(receipt, charactersPerToken * tokens))
        return reply.type('application/json; charset=utf-8').send(text)
      } finally {
        await held.settle(tokens)
      }
    },
  )
}
