import type { FastifyReply } from 'fastify'
import { type Guard, requireScope, sendRequestsLeft } from '../access/guard.ts'
import { ApiError, clientGone } from '../errors.ts'
import type { TypedInstance } from '../http/openapi-fields.ts'
import { openAiRequestHeaders } from '../limits/headers.ts'
import type { ChatOptions } from './options.ts'

/**
 * Milliseconds at the end of the grace period for writing the error. If the grace period is under 2 s, half of it is for the
 * error.
 */
const errorWriteMs = 1000

/** The replies that are not complete, and the signals that end them early. */
export class OpenReplies {
  readonly #guard: Pick<Guard, 'watch'>
  readonly #controllers = new Set<AbortController>()

  constructor(guard: Pick<Guard, 'watch'>) {
    this.#guard = guard
  }

  /**
   * A signal that aborts when the client leaves before its reply is complete, when its key is no longer valid, or shortly before
   * the grace period of a stopping service is over. The reason of the signal is an `ApiError`. Fastify's own signal of a request
   * cannot be used, because that signal aborts when the body has been read.
   */
  signalOf(reply: FastifyReply): AbortSignal {
    const controller = new AbortController()
    if (reply.raw.destroyed) {
      // The client left while its key was checked, so the event `close` has already come.
      controller.abort(clientGone())
      return controller.signal
    }
    this.#controllers.add(controller)
    const unwatch = this.#guard.watch(reply.request, controller)
    reply.raw.once('close', () => {
      unwatch()
      this.#controllers.delete(controller)
      if (!reply.raw.writableFinished) controller.abort(clientGone())
    })
    return controller.signal
  }

  /** Lets replies go on for most of the grace period. A reply that is still open then ends with the error `service_stopping`. */
  endWithin(graceMs: number): void {
    const timer = setTimeout(
      () => {
        for (const controller of this.#controllers) controller.abort(stopping())
      },
      graceMs - Math.min(errorWriteMs, graceMs / 2),
    )
    // If all replies end sooner, the process must not wait for this timer.
    timer.unref()
  }
}

function stopping(): ApiError {
  const message = 'The service is stopping and could not finish this reply. Send the request again.'
  return new ApiError(503, 'service_stopping', message, { headers: { 'retry-after': '1', connection: 'close' } })
}

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
