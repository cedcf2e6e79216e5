import type { FastifyReply } from 'fastify'
import type { Guard } from '../access/guard.ts'
import { ApiError, clientGone } from '../errors.ts'

/** Milliseconds that are left, of the grace, for the last words to get out; half of a grace that is shorter than two. */
const lastWords = 1000

/** The replies that are not complete, and what ends them early. */
export class OpenReplies {
  readonly #guard: Guard
  readonly #controllers = new Set<AbortController>()

  constructor(guard: Guard) {
    this.#guard = guard
  }

  /**
   * A signal that aborts when the client leaves before its reply is complete, when its key ends, or when the service
   * cannot wait for it any longer; its reason is an `ApiError`. The request's own signal will not do: it aborts as soon
   * as the body has been read.
   */
  signalOf(reply: FastifyReply): AbortSignal {
    const controller = new AbortController()
    this.#controllers.add(controller)
    const unwatch = this.#guard.watch(reply.request, controller)
    reply.raw.once('close', () => {
      unwatch()
      this.#controllers.delete(controller)
      if (!reply.raw.writableFinished) controller.abort(clientGone())
    })
    return controller.signal
  }

  /** Lets replies go on for most of a grace in milliseconds; what is still open then ends with an error that says why. */
  endWithin(grace: number): void {
    const timer = setTimeout(
      () => {
        for (const controller of this.#controllers) controller.abort(stopping())
      },
      grace - Math.min(lastWords, grace / 2),
    )
    // The process need not wait for this when all is over sooner.
    timer.unref()
  }
}

function stopping(): ApiError {
  const message = 'The service is stopping and could not finish this reply. Send the request again.'
  return new ApiError(503, 'service_stopping', message, { headers: { 'retry-after': '1', connection: 'close' } })
}
