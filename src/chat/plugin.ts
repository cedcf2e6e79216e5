import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { requireScope, tellRequestsLeft } from '../access/guard.ts'
import { openAiRequestHeaders } from '../limits/headers.ts'
import { completionRoute } from './completion-route.ts'
import { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'
import { promptRoute } from './prompt-route.ts'

/** The chat completion interface (spec, section 4.3), and the receipt of a prompt. */
export const chatPlugin: FastifyPluginAsyncTypebox<ChatOptions> = async (app, options) => {
  const { guard } = options
  const replies = new OpenReplies(guard)
  app.addHook('preClose', async () => replies.endWithin(options.shutdownGraceMs))

  app.addHook('onRequest', (_request, reply, done) => {
    // Conversations are nothing that a browser should find on its disk.
    reply.header('cache-control', 'no-store')
    done()
  })
  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', tellRequestsLeft(openAiRequestHeaders))
  app.addHook('onRequest', requireScope('chat'))

  completionRoute(app, options, replies)
  promptRoute(app, options, replies)
}
