import type { onRequestHookHandler } from 'fastify'
import type { Allowance, RequestHeaders } from '../access/request-counter.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** How many requests the key has left, once its guard has let it pass; null where nothing limits them. */
    requestsLeft: Allowance | null
  }
}

/** Gives a hook, for after the guard's, that tells the caller how many requests are left. */
export function tellRequestsLeft(tell: RequestHeaders): onRequestHookHandler {
  return (request, reply, done) => {
    if (request.requestsLeft !== null) reply.headers(tell(request.requestsLeft))
    done()
  }
}
