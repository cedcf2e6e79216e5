import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { answers, refusals, security, type TypedInstance } from '../http/openapi-fields.ts'
import { ChatError, Completion } from '../openai/completion.ts'
import { CompletionRequest, chatNumbers } from '../openai/completion-request.ts'
import { mendAnswers } from '../openai/messages.ts'
import { answer } from './answering.ts'
import { guardChat, type OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { promptRoute } from './prompt-route.ts'
import { chatReplyFormat } from './reply-format.ts'

/** Chat completions, and receipts of prompts. */
export const chatPlugin: FastifyPluginAsyncTypebox<ChatOptions> = async (app, options) => {
  const replies = guardChat(app, options)
  app.addHook('preValidation', (request, _reply, done) => {
    mendAnswers(request.body)
    done()
  })
  completionRoute(app, options, replies)
  promptRoute(app, options, replies)
}

/** Registers `POST /chat/completions` (OpenAI's chat completions). @param replies the replies that are not complete */
function completionRoute(app: TypedInstance, options: ChatOptions, replies: OpenReplies): void {
  app.post(
    '/chat/completions',
    {
      bodyLimit: options.bodyLimit,
      config: { numbersRead: chatNumbers },
      schema: {
        hide: options.isAlias === true,
        operationId: 'createChatCompletion',
        summary: 'Create a chat completion',
        description:
          'Answers the conversation as the character. With `stream: true` the reply is `text/event-stream`: chunk objects, then `data: [DONE]`. Parameters that are not listed here go to the model, as far as the model takes them and the operator allows them. Parameters that would change the destination (`api_base`, `base_url`, `api_key`, `extra_headers`, `extra_body`) go to no model. Parameters that choose a host, a credential or code at the upstream are a 400 `refused_parameter`, and for keys with a list of models also those that choose another model or provider. `x-ignored-params` names the parameters without effect.',
        tags: ['chat'],
        security,
        body: CompletionRequest,
        response: answers({ 200: Completion }, ChatError, [...refusals, 400, 404, 413, 415, 502, 504]),
      },
    },
    (request, reply) => answer(request, reply, request.body, chatReplyFormat(request.body), options, replies),
  )
}
