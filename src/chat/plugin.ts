import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { mendAnswers } from '../openai/sent-back.ts'
import { completionRoute } from './completion-route.ts'
import { guardChat } from './guard-chat.ts'
import type { ChatOptions } from './options.ts'
import { promptRoute } from './prompt-route.ts'

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
