import { callerOf } from '../access/guard.ts'
import { hasModelList } from '../access/model-lists.ts'
import { bufferOf } from '../bytes.ts'
import { mayRead } from '../characters/library/character.ts'
import { hasLargeBody } from '../http/json.ts'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { promptEstimate } from '../limits/estimate.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import { ChatError } from '../openai/completion.ts'
import { CompletionRequest, chatNumbers } from '../openai/completion-request.ts'
import type { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { PromptReceipt } from './receipt.ts'
import { personaName, requestTextsOf, resolvePersona, resolveRequest } from './resolve-persona.ts'

/** Registers `POST /chat/prompt`: the receipt of a prompt, for which no model is asked. */
export function promptRoute(app: TypedInstance, options: ChatOptions, replies: OpenReplies): void {
  app.post(
    '/chat/prompt',
    {
      bodyLimit: options.bodyLimit,
      config: { numbersRead: chatNumbers },
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
      if (!wanted) {
        const caller = callerOf(request)
        throw options.models.notFound(request.body.model, caller, await options.library.names(caller.account.id))
      }
      const { body } = wanted
      const signal = replies.signalOf(reply)
      const resolved = await resolvePersona(request, reply, wanted, options)
      const { route, character } = resolved
      const { RequestComposer } = await import('./request-composer.ts')
      const work = options.workOf(request, signal)
      const texts = requestTextsOf(request, body, resolved)
      const sources = { settings: options.prompt, worldBooks: options.library.worldBooks, texts }
      const composer = new RequestComposer(body, resolved.persona, sources, work, {
        hasModelList: hasModelList(callerOf(request)),
        isLarge: hasLargeBody(request),
        receipt: {
          model: route.name,
          character: personaName(resolved.persona),
          isShown: !character || mayRead(callerOf(request), character),
        },
      })
      const candidate = await route.findFirstUsable({ requestFor: composer.requestFor, signal })
      const { request: asked, size, receipt } = composer.composedFor(candidate)
      const held = await options.limiter.reserve(callerOf(request), () => promptEstimate(asked.body, size), 'prompt')
      await held.settle(receipt?.tokens ?? held.tokens)
      reply.headers(composer.headersFor(candidate))
      if (held.allowance) reply.headers(openAiTokenHeaders(held.allowance))
      return reply.type('application/json; charset=utf-8').send(bufferOf(receipt?.json ?? new Uint8Array()))
    },
  )
}
