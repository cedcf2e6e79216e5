import { once } from 'node:events'
import { type IncomingMessage, type RequestOptions, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** The result of one request. */
export interface Answer {
  /** The status of the reply; null if there is no reply. */
  readonly status: number | null
  /** The status with the error's code, or the reason why there is no reply. */
  readonly words: string
  /** Seconds from the request to the end of the reply, without the attacker's own delays. */
  readonly seconds: number
}

/** Seconds that an attacker waits for all its replies before it disconnects. */
export const patience = 40
/** A request that waited for fewer seconds when its attacker disconnected is not counted. */
const minSeconds = 30

interface Sending {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer
  /** Seconds before the last byte of the body is sent. */
  readonly unfinishedFor?: number
  /** Seconds before the reply is read. */
  readonly unreadFor?: number
  /** Whether the attacker disconnects as soon as the reply begins. */
  readonly leaves?: boolean
}

/** One hostile caller: it sends requests, and records the results. */
export class Attacker {
  readonly answers: Answer[] = []
  readonly index: number
  readonly url: string
  readonly dataDirectory: string
  readonly folder: string
  readonly #key: string | undefined
  readonly #leaving = new AbortController()

  /** @param key undefined for an attacker without a key */
  constructor(index: number, key: string | undefined, service: { url: string; dataDirectory: string; folder: string }) {
    this.index = index
    this.#key = key
    this.url = service.url
    this.dataDirectory = service.dataDirectory
    this.folder = service.folder
  }

  /** Posts a body, and reads the reply. */
  post(path: string, body: Buffer, type = 'application/json'): Promise<Answer> {
    return this.send(path, { method: 'POST', body, headers: { 'content-type': type } })
  }

  /** Puts a body, and reads the reply. */
  put(path: string, body: Buffer, type = 'application/json'): Promise<Answer> {
    return this.send(path, { method: 'PUT', body, headers: { 'content-type': type } })
  }

  /** Sends a request, and reads the reply; never rejects. */
  send(path: string, sending: Sending = {}): Promise<Answer> {
    return this.#record(this.#ask(path, sending), (sending.unfinishedFor ?? 0) + (sending.unreadFor ?? 0))
  }

  /** Posts a body that is already encoded in chunks of HTTP/1.1 (`inChunks`), and reads the reply; never rejects. */
  postChunks(path: string, chunks: Buffer): Promise<Answer> {
    return this.#record(this.#askInChunks(path, chunks))
  }

  /** Whether the attacker has disconnected. */
  get hasLeft(): boolean {
    return this.#leaving.signal.aborted
  }

  async #record(asked: Promise<Pick<Answer, 'status' | 'words'>>, dawdled = 0): Promise<Answer> {
    const start = performance.now()
    const { status, words } = await asked.catch((error: unknown) => ({
      status: null,
      words: this.hasLeft ? 'no answer' : `cut off (${codeOf(error)})`,
    }))
    const answer = { status, words, seconds: Math.max(0, (performance.now() - start) / 1000 - dawdled) }
    // A request that the attacker gave up early says nothing about the service.
    if (status !== null || !this.hasLeft || answer.seconds > minSeconds) this.answers.push(answer)
    return answer
  }

  /** Records the result of an action that is no request. */
  tell(words: string, status: number | null, seconds: number): void {
    this.answers.push({ status, words, seconds })
  }

  /** Disconnects immediately, without waiting for replies. */
  leave(): void {
    this.#leaving.abort()
  }

  /** The client of Node would write each chunk of its own, which takes longer than reading it. */
  async #askInChunks(path: string, chunks: Buffer): Promise<Pick<Answer, 'status' | 'words'>> {
    const { port } = new URL(this.url)
    const socket = connect({ port: Number(port), signal: this.#leaving.signal })
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${this.#key}\r\nconnection: close\r\n` +
        'content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
    )
    socket.write(chunks)
    let reply = ''
    socket.on('data', (piece) => {
      reply += piece
    })
    await once(socket, 'end')
    const status = Number(/^HTTP\/1.1 (\d+)/.exec(reply)?.[1])
    return wordsOf(status, reply)
  }

  async #ask(path: string, sending: Sending): Promise<Pick<Answer, 'status' | 'words'>> {
    const { method = 'GET', headers, body, unfinishedFor = 0, unreadFor = 0, leaves = false } = sending
    const options: RequestOptions = {
      method,
      agent: false,
      signal: this.#leaving.signal,
      headers: {
        ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
        ...(body ? { 'content-length': body.length } : {}),
        ...headers,
      },
    }
    const sent = request(`${this.url}${path}`, options)
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve)
      sent.on('error', reject)
    })
    if (body && unfinishedFor > 0) {
      sent.write(body.subarray(0, -1))
      await Promise.race([sleep(unfinishedFor * 1000), answered])
      sent.end(body.subarray(-1))
    } else sent.end(body)
    const response = await answered
    if (unreadFor > 0) await sleep(unreadFor * 1000)
    const told = await beginningOf(response, leaves)
    return wordsOf(response.statusCode ?? 0, told)
  }
}

/** A body in chunks of one byte, as HTTP/1.1 sends them. */
export function inChunks(body: Buffer): Buffer {
  const chunks = Buffer.alloc(6 * body.length, '1\r\n.\r\n')
  for (const [index, byte] of body.entries()) chunks[6 * index + 3] = byte
  return Buffer.concat([chunks, Buffer.from('0\r\n\r\n')])
}

function wordsOf(status: number, reply: string): Pick<Answer, 'status' | 'words'> {
  const code = status < 400 ? undefined : /"code":"(\w+)"/.exec(reply)?.[1]
  return { status, words: `${status}${code === undefined ? '' : ` ${code}`}` }
}

/** The first bytes of a reply. @param leaves whether to disconnect; otherwise the whole reply is read */
async function beginningOf(response: IncomingMessage, leaves: boolean): Promise<string> {
  if (leaves) {
    response.destroy()
    return ''
  }
  let text = ''
  for await (const piece of response) if (text.length < 2000) text += String(piece).slice(0, 2000)
  return text
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}
