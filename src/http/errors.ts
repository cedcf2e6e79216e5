import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, openAiErrorBody, plantErrorBody, toApiError } from '../errors.ts'
import { commonHeaders } from './request-log.ts'

/** Writes an `ApiError` as a body of one interface's shape. */
export type ErrorBody = (error: ApiError) => unknown

/** Gives the error handler of a group: one status, one body shape; what nobody planned for is logged with its cause. */
export function errorHandler(body: ErrorBody) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = leftEarly(request)
      ? new ApiError(400, 'incomplete_body', 'The request ended before its body was complete. Send it whole.')
      : toApiError(thrown)
    if (error.status >= 500) request.failure = error.code
    // Refusals under load come by the thousand: the line that each request has is enough of them.
    if (error.status >= 500 && error.code !== 'overloaded')
      request.log.error({ request_id: request.id, err: error.cause ?? error }, error.code)
    // A path that cannot be decoded fails before there are any hooks.
    if (!reply.hasHeader('x-request-id')) reply.headers(commonHeaders(request.id))
    return reply
      .code(error.status)
      .headers(error.headers)
      .type('application/json')
      .send(JSON.stringify(body(error)))
  }
}

/** Whether the caller went away while the body was on its way: no fault of ours, though reading it failed. */
function leftEarly({ raw }: FastifyRequest): boolean {
  return raw.readableAborted && !raw.complete
}

/** Where the plants interface is, the one group whose errors have a shape of their own. */
export const plantsPrefix = '/plants'
const isOfPlants = new RegExp(`^${plantsPrefix}(?:[/?]|$)`)

/** The shape of what answers outside every group, where Fastify knows no more than the URL. */
export function errorBodyOf(url: string): ErrorBody {
  return isOfPlants.test(url) ? plantErrorBody : openAiErrorBody
}
