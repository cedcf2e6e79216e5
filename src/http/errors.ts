import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, openAiErrorBody, plantErrorBody, toApiError } from '../errors.ts'
import { commonHeaders } from './request-log.ts'

/** Makes the body of an `ApiError` in the shape of one interface. */
export type ErrorBody = (error: ApiError) => unknown

/**
 * Makes the error handler of a group of routes. The handler writes all errors in one shape. It logs each failure of the service
 * with its cause. Only the 503 `overloaded` is not logged here.
 */
export function errorHandler(body: ErrorBody) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = leftEarly(request)
      ? new ApiError(400, 'incomplete_body', 'The request ended before its body was complete. Send it whole.')
      : toApiError(thrown)
    // A 501 is the answer to a request that asks for what HTTP need not have: the fault is the caller's.
    const isFailure = error.status >= 500 && error.status !== 501
    if (isFailure) request.failure = error.code
    // Under load there may be thousands of refusals. Each request has a log line, which is enough.
    if (isFailure && error.code !== 'overloaded')
      request.log.error({ request_id: request.id, err: error.cause ?? error }, error.code)
    // A path that cannot be decoded fails before the hooks run.
    if (!reply.hasHeader('x-request-id')) reply.headers(commonHeaders(request.id))
    return reply
      .code(error.status)
      .headers(error.headers)
      .type('application/json')
      .send(JSON.stringify(body(error)))
  }
}

/** Whether the client left before its body was complete. Then the error is about the body, and is no fault of the service. */
function leftEarly({ raw }: FastifyRequest): boolean {
  return raw.readableAborted && !raw.complete
}

/** The prefix of the routes of plants. */
export const plantsPrefix = '/plants'
/** The paths of the plants group. Only this group of routes has error bodies in another shape than OpenAI's. */
const isOfPlants = /^\/(?:plants|care|care\.ics|events)(?:[/?]|$)/

/** Chooses, by the URL, the shape of an error that occurs outside all groups of routes. */
export function errorBodyOf(url: string): ErrorBody {
  return isOfPlants.test(url) ? plantErrorBody : openAiErrorBody
}

/** The error handler of all routes that have no group of their own, such as preflights: the URL decides about the shape. */
export function answerError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return errorHandler(errorBodyOf(request.url))(thrown, request, reply)
}
