import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, openAiErrorBody, plantErrorBody, toApiError } from '../errors.ts'
import { commonHeaders } from './request-log.ts'

/** Makes the body of an `ApiError` in the shape of one interface. */
export type ErrorBody = (error: ApiError) => unknown

/**
 * Makes the error handler of a group of routes. The handler writes all errors in one shape. It logs errors with a status from 500
 * on with their cause, except the 503 `overloaded`.
 */
export function errorHandler(body: ErrorBody) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = leftEarly(request)
      ? new ApiError(400, 'incomplete_body', 'The request ended before its body was complete. Send it whole.')
      : toApiError(thrown)
    if (error.status >= 500) request.failure = error.code
    // Under load there may be thousands of refusals: the log line of each request is enough.
    if (error.status >= 500 && error.code !== 'overloaded')
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

/** Whether the client left before its body was complete: then reading the body failed, which is no fault of the service. */
function leftEarly({ raw }: FastifyRequest): boolean {
  return raw.readableAborted && !raw.complete
}

/** The prefix of the plants interface, the only group of routes with error bodies of its own. */
export const plantsPrefix = '/plants'
const isOfPlants = new RegExp(`^${plantsPrefix}(?:[/?]|$)`)

/** The shape of an error that is outside all groups of routes, chosen by the URL. */
export function errorBodyOf(url: string): ErrorBody {
  return isOfPlants.test(url) ? plantErrorBody : openAiErrorBody
}
