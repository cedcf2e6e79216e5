import { requireScope, sendRequestsLeft } from '../access/guard.ts'
import type { TypedInstance } from '../http/openapi-fields.ts'
import { openAiRequestHeaders } from '../limits/headers.ts'
import { OpenReplies } from './open-replies.ts'
import type { ChatOptions } from './options.ts'

/**
 * Adds the hooks that all routes of a chat interface need, such as authentication and the scope `chat`.
 * @returns the open replies of these routes. When the service stops, they are ended shortly before the end of the grace period
 */
export function guardChat(app: TypedInstance, { guard, shutdownGraceMs }: ChatOptions): OpenReplies {
  const replies = new OpenReplies(guard)
  app.addHook('preClose', async () => replies.endWithin(shutdownGraceMs))
  app.addHook('onRequest', (_request, reply, done) => {
    // A browser must not keep conversations on its disk.
    reply.header('cache-control', 'no-store')
    done()
  })
  app.addHook('onRequest', guard.admitApiKey)
  app.addHook('onRequest', sendRequestsLeft(openAiRequestHeaders))
  app.addHook('onRequest', requireScope('chat'))
  return replies
}
