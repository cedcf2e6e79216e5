import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { callerOf } from '../access/guard.ts'
import { answer } from '../chat/answering.ts'
import { guardChat } from '../chat/open-replies.ts'
import type { ChatOptions } from '../chat/options.ts'
import { toApiError } from '../errors.ts'
import { answers, refusals, security } from '../http/openapi-fields.ts'
import { ChatError } from '../openai/completion.ts'
import { ResponseObject } from '../openai/response.ts'
import { ResponseRequest, responseNumbers } from '../openai/response-request.ts'
import type { OutputItemCache } from './output-item-cache.ts'
import { responseReplyFormat } from './reply-format.ts'
import { completionRequestOf } from './to-completion.ts'

/** The parts of the route: the parts of chat, and the cache of earlier output items. */
export interface ResponsesOptions extends ChatOptions {
  readonly items: OutputItemCache
}

/** OpenAI's Responses API. A request is translated into a chat completion. */
export const responsesPlugin: FastifyPluginAsyncTypebox<ResponsesOptions> = async (app, options) => {
  const replies = guardChat(app, options)
  app.post(
    '/responses',
    {
      bodyLimit: options.bodyLimit,
      config: { numbersRead: responseNumbers },
      schema: {
        hide: options.isAlias === true,
        operationId: 'createResponse',
        summary: 'Create a response',
        description:
          'Answers the conversation as the character, in the format of the Responses API. With `stream: true` the reply is `text/event-stream` with typed events. No response is stored: `store` is always false in the reply. For up to an hour, later requests can refer to the items of a response, unless it was made with `store: false`. These items are only in the memory of one replica.',
        tags: ['chat'],
        security,
        body: ResponseRequest,
        response: answers({ 200: ResponseObject }, ChatError, [...refusals, 400, 404, 413, 415, 502, 504]),
      },
    },
    async (request, reply) => {
      const { items } = options
      const account = callerOf(request).account.id
      const { body, ...translation } = completionRequestOf(request.body, (id) => items.find(account, id))
      const format = responseReplyFormat(request.body, translation, (output) => {
        if (request.body.store !== false) items.keep(account, output)
      })
      try {
        return await answer(request, reply, body, format, options, replies)
      } catch (thrown) {
        throw translation.translateError(toApiError(thrown))
      }
    },
  )
}
