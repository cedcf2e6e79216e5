import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { ApiError } from '../errors.ts'
import { lingerMs } from './body.ts'
import { errorBodyOf } from './errors.ts'
import { commonHeaders, makeRequestId } from './request-log.ts'

/** Node's, with the bytes that it stumbled over where it has them. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: unknown }

/** Connections whose fault has been seen: Node tells of it again with every piece that follows. */
const faulty = new WeakSet<Socket>()

/** Answers what is not HTTP at all, or takes too long to become it: Node's parser gave up before there was a request. */
export function answerParserError(this: FastifyInstance, error: ParserError, socket: Socket): void {
  if (!socket.writable || faulty.has(socket)) return
  faulty.add(socket)
  answerInTurn(this, error, socket)
}

/** Answers when the requests before it, which may be as good as any, have been answered. */
function answerInTurn(app: FastifyInstance, error: ParserError, socket: Socket): void {
  if (!socket.writable) return
  const response = responseOn(socket)
  if (response?.req.complete) {
    response.once('close', () => answerInTurn(app, error, socket))
    return
  }
  // An error in the middle of a reply would pass for a part of it.
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
  // Where there is a request, its own line tells of its end.
  if (!response) {
    app.log.info({ request_id: id, route: 'unknown', status: refusal.status, reason: error.code }, 'request')
  }
}

/** The refusal, and its status in words. */
function refusalOf({ code }: ParserError): readonly [reason: string, refusal: ApiError] {
  if (code === 'HPE_HEADER_OVERFLOW') {
    const refusal = new ApiError(431, 'headers_too_large', 'Send fewer or shorter headers.')
    return ['Request Header Fields Too Large', refusal]
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return [
      'Request Timeout',
      new ApiError(408, 'request_timeout', 'The request took too long to arrive. Send it again.'),
    ]
  }
  return ['Bad Request', new ApiError(400, 'malformed_http', 'This is not well-formed HTTP. Mend the request.')]
}

/** The response to the request that the socket is busy with, as Node notes it on the socket. */
function responseOn(socket: Socket): ServerResponse | undefined {
  const response = '_httpMessage' in socket ? socket._httpMessage : undefined
  return isResponse(response) ? response : undefined
}

/** By its fields: asking for the class imports all names of `node:http`, and with them Node's WebSocket, 30 ms of a start. */
function isResponse(value: unknown): value is ServerResponse {
  return typeof value === 'object' && value !== null && 'headersSent' in value && 'req' in value
}
