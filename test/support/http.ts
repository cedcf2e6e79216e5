import { connect } from 'node:net'
import { expect } from 'vitest'
import type { OpenAiErrorBody, PlantErrorBody } from '../../src/errors.ts'

/** The two formats of error bodies: one for plants, and the format of chat for all other routes. */
export type Group = 'plants' | 'chat'

/** The content of an error reply. */
export interface ErrorReply {
  readonly message: string
  /** The code of the error; undefined in the format of plants. */
  readonly code: string | undefined
  readonly param: string | null | undefined
  /** Body and headers as one text, in which a test searches for words that must not appear. */
  readonly everything: string
}

/** Signs of an unhandled error in a reply: stack traces, codes and words of libraries. */
const detail = /\bat .+:\d+|node_modules|node:|FST_|SQLITE|sqlite|Error:|undefined|\[object|\bstack\b/

/** Checks that a reply is an error with this status, in exactly the format of its group, and with the headers of all errors. */
export async function expectError(response: Response, group: Group, status: number): Promise<ErrorReply> {
  const text = await response.text()
  expect(`${response.status} ${text}`).toMatch(new RegExp(`^${status} \\{`))
  expect(response.headers.get('content-type')).toMatch(/^application\/json(; charset=utf-8)?$/)
  expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
  expect(response.headers.get('www-authenticate')).toBe(status === 401 ? 'Bearer' : null)
  const said = group === 'plants' ? readPlantError(text, status) : readChatError(text)
  expect(said.message).toMatch(/^[A-Z].*\.$/)
  const everything = `${JSON.stringify([...response.headers])}${text}`
  expect(everything).not.toMatch(detail)
  return { ...said, everything }
}

function readPlantError(text: string, status: number): Omit<ErrorReply, 'everything'> {
  const body: PlantErrorBody = JSON.parse(text)
  expect(body).toStrictEqual({ error: status, message: expect.any(String) })
  return { message: body.message, code: undefined, param: undefined }
}

function readChatError(text: string): Omit<ErrorReply, 'everything'> {
  const body: OpenAiErrorBody = JSON.parse(text)
  expect(body).toStrictEqual({
    error: {
      message: expect.any(String),
      type: expect.stringMatching(/^(invalid_request|authentication|permission|rate_limit)_error$|^server_error$/),
      param: body.error.param === null ? null : expect.any(String),
      code: expect.stringMatching(/^[a-z0-9]+(_[a-z0-9]+)*$/),
    },
  })
  return body.error
}

/** Sends these bytes over a new connection, and returns all bytes until the service closes the connection. */
async function exchangeRaw(url: string, bytes: string | Uint8Array): Promise<string> {
  const { hostname, port } = new URL(url)
  const pieces: Buffer[] = []
  await new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.on('data', (piece) => pieces.push(Buffer.from(piece)))
    socket.once('error', reject)
    socket.once('close', () => resolve())
  })
  return Buffer.concat(pieces).toString('latin1')
}

/** Sends these bytes, whose headers must have `connection: close`, and parses the reply. */
export async function sendRaw(url: string, bytes: string | Uint8Array): Promise<Response> {
  const text = await exchangeRaw(url, bytes)
  const end = text.indexOf('\r\n\r\n')
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n')
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()]
  })
  const body = Buffer.from(text.slice(end + 4), 'latin1')
  return new Response(body.length === 0 ? null : body, { status: Number(statusLine.split(' ')[1]), headers })
}
