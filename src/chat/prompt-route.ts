import { callerOf } from '../access/guard.ts'
import { hasModelList } from '../access/model-lists.ts'
import { mayRead } from '../characters/library/character.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { jsonReply } from '../json-writer.ts'
import { promptEstimate } from '../limits/estimate.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import { unknownModel } from '../models/unknown-model.ts'
import { ChatError } from '../openai/completion.ts'
import { CompletionRequest, passesChatNumbers } from '../openai/completion-request.ts'
import type { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { PromptReceipt } from './receipt-schema.ts'
import { requestTextsOf } from './request-texts.ts'
import { resolvePersona, resolveRequest } from './resolve-persona.ts'

/** Registers `POST /chat/prompt`: the receipt of a prompt, for which no model is asked. */
export function promptRoute(app: TypedInstance, options: ChatOptions, replies: OpenReplies): void {
  app.post(
    '/chat/prompt',
    {
      bodyLimit: options.bodyLimit,
      config: { keepsNumbersOf: passesChatNumbers },
      schema: {
        hide: options.isAlias === true,
        operationId: 'createChatPrompt',
        summary: 'Show the prompt for a model',
        description:
          'Takes the body of a completion and asks no model. Returns the exact messages, the tokens of each part, the lore that fired, and the parts that were left out with the reason. The request counts in `chat_at_once`, and the tokens of its prompt in `tokens_per_minute`, but not in `tokens_per_day`, in `tokens_per_month` and in reports of usage.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: PromptReceipt }, ChatError, [...refusals, 400, 404, 413, 415]),
      },
    },
    async (request, reply) => {
      const wanted = resolveRequest(request.body, options.models, callerOf(request))
      if (!wanted) throw await unknownModel(request.body.model, callerOf(request), options.models, options.library)
      const { body } = wanted
      const signal = replies.signalOf(reply)
      const resolved = await resolvePersona(request, reply, wanted, options)
      const { route } = resolved
      const [{ RequestComposer }, { receiptOf }] = await Promise.all([
        import('./request-composer.ts'),
        import('./receipt.ts'),
      ])
      const work = options.workOf(request, signal)
      const texts = await requestTextsOf(request, body, resolved, work)
      const sources = { settings: options.prompt, worldBooks: options.library.worldBooks, texts }
      const composer = new RequestComposer(body, resolved.persona, sources, work, {
        openHeld: () => options.openHeld(request),
        hasModelList: hasModelList(callerOf(request)),
      })
      const candidate = await route.findFirstUsable(composer.requestFor, signal)
      const composed = await composer.composedFor(candidate)
      const { character } = resolved
      const isShown = !character || mayRead(callerOf(request), character)
      const held = await options.limiter.reserve(
        callerOf(request),
        () => promptEstimate(composed.request.body),
        'prompt',
      )
      // If the receipt fails, the estimate counts.
      let tokens = held.tokens
      try {
        const model = { model: route.name, upstreamId: candidate.traits.upstreamId }
        const refusedRegexes = texts?.refusedRegexes ?? []
        const receipt = await receiptOf({
          ...model,
          persona: resolved.persona,
          body,
          composed,
          refusedRegexes,
          isShown,
        })
        tokens = receipt.tokens.total
        reply.headers(composer.headersFor(candidate))
        if (held.allowance) reply.headers(openAiTokenHeaders(held.allowance))
        const json = await work.run('messages', jsonReply(receipt))
        return reply.type('application/json; charset=utf-8').send(json)
      } finally {
        await held.settle(tokens)
      }
    },
  )
}
