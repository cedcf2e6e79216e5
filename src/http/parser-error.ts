import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../errors.ts'
import { lingerMs } from './body.ts'
import { errorBodyOf } from './errors.ts'
import { commonHeaders, makeRequestId } from './request-log.ts'

/** An error of Node's parser, with the bytes that caused the error if Node has them. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: unknown }

/** Connections whose error is already answered. Node reports the error again with each further piece of data. */
const faulty = new WeakSet<Socket>()

/** Answers a request for which Node's parser failed: it is not HTTP, has too large headers, or takes too long to arrive. */
export function answerParserError(this: FastifyInstance, error: ParserError, socket: Socket): void {
  if (!socket.writable || faulty.has(socket)) return
  faulty.add(socket)
  answerInTurn(this, error, socket)
}

/** Answers a faulty request after the valid requests that came before it on the connection. */
function answerInTurn(app: FastifyInstance, error: ParserError, socket: Socket): void {
  if (!socket.writable) return
  const response = responseOn(socket)
  if (response?.req.complete) {
    response.once('close', () => answerInTurn(app, error, socket))
    return
  }
  // If a reply has begun, the client would read the error as a part of that reply.
  if (response?.headersSent) {
    socket.destroy()
    return
  }
  const [reason, refusal] = refusalOf(error)
  const url = Buffer.isBuffer(error.rawPacket) ? error.rawPacket.toString('latin1').split(' ', 2)[1] : undefined
  const body = JSON.stringify(errorBodyOf(response?.req.url ?? url ?? '/')(refusal))
  const id = makeRequestId()
  const head = [
    `HTTP/1.1 ${refusal.status} ${reason}`,
    ...Object.entries(commonHeaders(id)).map(([name, value]) => `${name}: ${value}`),
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  setTimeout(() => socket.destroy(), lingerMs).unref()
  // If a request had begun, `logRequests` writes the log line.
  if (!response) {
    app.log.info({ request_id: id, route: 'unknown', status: refusal.status, reason: error.code }, 'request')
  }
}

/** The refusal, and the reason phrase of its status. */
function refusalOf({ code }: ParserError): readonly [reason: string, refusal: ApiError] {
  if (code === 'HPE_HEADER_OVERFLOW') {
    const refusal = new ApiError(431, 'headers_too_large', 'The headers are too large. Send fewer or shorter ones.')
    return ['Request Header Fields Too Large', refusal]
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return [
      'Request Timeout',
      new ApiError(408, 'request_timeout', 'The request took too long to arrive. Send it again.'),
    ]
  }
  return ['Bad Request', new ApiError(400, 'malformed_http', 'This is not well-formed HTTP. Correct the request.')]
}

/** The response to the current request of the socket, if Node has set one. */
function responseOn(socket: Socket): ServerResponse | undefined {
  const response = '_httpMessage' in socket ? socket._httpMessage : undefined
  return isResponse(response) ? response : undefined
}

/** Checks the fields, because an import of the class would load Node's WebSocket, which takes 30 ms of a start (`drain.ts`). */
function isResponse(value: unknown): value is ServerResponse {
  return typeof value === 'object' && value !== null && 'headersSent' in value && 'req' in value
}
