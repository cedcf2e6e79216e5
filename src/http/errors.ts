import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, openAiErrorBody, plantErrorBody, toApiError } from '../errors.ts'

/** Writes an `ApiError` as a body of one interface's shape. */
export type ErrorBody = (error: ApiError) => unknown

/** Gives the error handler of a group: one status, one body shape; what nobody planned for is logged with its cause. */
export function errorHandler(body: ErrorBody) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = toApiError(thrown)
    if (error.status >= 500) request.log.error({ err: error.cause ?? error }, error.code)
    return reply
      .code(error.status)
      .headers(error.headers)
      .type('application/json')
      .send(JSON.stringify(body(error)))
  }
}

/** The shape of what answers outside every group, where Fastify knows no more than the URL. */
export function errorBodyOf(url: string): ErrorBody {
  return /^\/plants(?:[/?]|$)/.test(url) ? plantErrorBody : openAiErrorBody
}

/**
 * Answers what is not HTTP at all: Node's parser gave up before there was a request.
 * @param error Node's, with the bytes that it stumbled over where it has them
 */
export function answerParserError(error: NodeJS.ErrnoException & { rawPacket?: unknown }, socket: Socket): void {
  if (!socket.writable) return
  const [status, reason, apiError] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [
          431,
          'Request Header Fields Too Large',
          new ApiError(431, 'headers_too_large', 'Send fewer or shorter headers.'),
        ]
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [
            408,
            'Request Timeout',
            new ApiError(408, 'request_timeout', 'The request took too long to arrive. Send it again.'),
          ]
        : [400, 'Bad Request', new ApiError(400, 'malformed_http', 'This is not well-formed HTTP. Mend the request.')]
  const url = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1').split(' ', 2)[1] : undefined
  const body = JSON.stringify(errorBodyOf(url ?? '/')(apiError))
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}
