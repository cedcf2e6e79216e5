import { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ApiError, openAiErrorBody, plantErrorBody, toApiError } from '../errors.ts'
import { makeRequestId } from './requests.ts'

/** Writes an `ApiError` as a body of one interface's shape. */
export type ErrorBody = (error: ApiError) => unknown

/** Gives the error handler of a group: one status, one body shape; what nobody planned for is logged with its cause. */
export function errorHandler(body: ErrorBody) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const error = leftEarly(request)
      ? new ApiError(400, 'incomplete_body', 'The request ended before its body was complete. Send it whole.')
      : toApiError(thrown)
    // Refusals under load come by the thousand: the line that each request has is enough of them.
    if (error.status >= 500 && error.code !== 'overloaded')
      request.log.error({ request_id: request.id, err: error.cause ?? error }, error.code)
    return (
      reply
        .code(error.status)
        .headers(error.headers)
        // Also where no hook has put it: a path that cannot be decoded fails before there are any.
        .header('x-request-id', request.id)
        .type('application/json')
        .send(JSON.stringify(body(error)))
    )
  }
}

/** Whether the caller went away while the body was on its way: no fault of ours, though reading it failed. */
function leftEarly({ raw }: FastifyRequest): boolean {
  return raw.readableAborted && !raw.complete
}

/** The shape of what answers outside every group, where Fastify knows no more than the URL. */
export function errorBodyOf(url: string): ErrorBody {
  return /^\/plants(?:[/?]|$)/.test(url) ? plantErrorBody : openAiErrorBody
}

/**
 * Answers what is not HTTP at all: Node's parser gave up before there was a request.
 * @param error Node's, with the bytes that it stumbled over where it has them
 */
export function answerParserError(
  this: FastifyInstance,
  error: NodeJS.ErrnoException & { rawPacket?: unknown },
  socket: Socket,
): void {
  if (!socket.writable) return
  const response = responseOn(socket)
  // An error in the middle of a reply would pass for a part of it.
  if (response?.headersSent) {
    socket.destroy()
    return
  }
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
  const id = makeRequestId()
  const head = [
    `HTTP/1.1 ${status} ${reason}`,
    `X-Request-Id: ${id}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  // Where there is a request, its own line tells of its end.
  if (!response) this.log.info({ request_id: id, route: 'unknown', status, reason: error.code }, 'request')
}

/** The response to the request that the socket is busy with, as Node notes it on the socket. */
function responseOn(socket: Socket): ServerResponse | undefined {
  const response = '_httpMessage' in socket ? socket._httpMessage : undefined
  return response instanceof ServerResponse ? response : undefined
}
