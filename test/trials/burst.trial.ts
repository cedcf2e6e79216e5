/*
 * More parallel requests than this machine can answer. How many requests are refused depends on the speed of the machine, so this
 * is not part of the tests. test/http/pressure.test.ts tests the decisions of load shedding.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Agent, request as send } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { spawnService } from '../support/process.ts'

interface Said {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** A service as a child process, and a function that sends each request over its own connection. */
async function busyService(environment: Readonly<Record<string, string>> = {}) {
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { LOG_LEVEL: 'error', ...environment },
  })
  const agent = new Agent({ connections: null })
  onTestFinished(() => agent.close())
  const ask = async (path: string, json?: unknown): Promise<Said> => {
    const reply = await send(service.url + path, {
      dispatcher: agent,
      method: json === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
    return { status: reply.statusCode, headers: reply.headers, body: await reply.body.text() }
  }
  return { service, ask }
}

const words = 'The leaves of my old fern turn yellow from below, and I water it every other day with rain. '
/** A conversation that keeps the understudy busy for milliseconds. */
const long = {
  model: 'understudy',
  character: 'Fern',
  messages: Array.from({ length: 121 }, (_none, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `${index}: ${words.repeat(3)}`,
  })),
}

describe('a burst of more requests than the service can answer', () => {
  test('gets 503s with Retry-After, but /livez and /readyz are answered, and so are all requests after the burst', async () => {
    const { service, ask } = await busyService()
    // The first request loads modules that only requests need.
    expect((await ask('/chat/completions', long)).status).toBe(200)
    // This opens connections, so that all requests of a burst are sent at the same time.
    await Promise.all(Array.from({ length: 420 }, () => ask('/livez')))
    // The body is large, because an overloaded service refuses large bodies first.
    const plant = { name: 'Monstera', note: words.repeat(100) }
    const burst = async () => {
      const chats: Promise<Said>[] = []
      const plants: Promise<Said>[] = []
      const vital: Promise<Said>[] = []
      for (let round = 0; round < 10; round++) {
        for (let count = 0; count < 30; count++) chats.push(ask('/chat/completions', long))
        for (let count = 0; count < 10; count++) plants.push(ask('/plants', plant))
        vital.push(ask('/livez'), ask('/readyz'))
      }
      expect((await Promise.all(vital)).map(({ status }) => status)).toEqual(vital.map(() => 200))
      return { chats: await Promise.all(chats), plants: await Promise.all(plants) }
    }
    const { chats: chatReplies, plants: plantReplies } = await burst()
    expect(new Set(chatReplies.map(({ status }) => status))).toEqual(new Set([200, 503]))
    // Over PostgreSQL the first burst may wait for the database and not overload the process.
    const isRefused = ({ status }: Said) => status === 503
    for (let more = 0; more < 5 && !plantReplies.some(isRefused); more++) plantReplies.push(...(await burst()).plants)
    expect(plantReplies.some(isRefused)).toBe(true)

    for (const { headers, body } of chatReplies.filter(({ status }) => status === 503)) {
      expect(headers).toMatchObject({ 'retry-after': '1', 'x-request-id': expect.stringMatching(/^req_/) })
      expect(JSON.parse(body)).toStrictEqual({
        error: { message: expect.any(String), type: 'server_error', param: null, code: 'overloaded' },
      })
    }
    for (const { headers, body } of plantReplies.filter(({ status }) => status === 503)) {
      expect(headers).toMatchObject({ 'retry-after': '1', 'content-type': expect.stringMatching(/^application\/json/) })
      expect(JSON.parse(body)).toStrictEqual({ error: 503, message: expect.any(String) })
    }
    for (let count = 0; count < 5; count++) expect((await ask('/chat/completions', long)).status).toBe(200)
    expect(service.stdout()).toBe('')
  }, 20_000)

  test('leaves the connections of refused requests usable', async () => {
    const { service, ask } = await busyService()
    expect((await ask('/chat/completions', long)).status).toBe(200)
    const body = JSON.stringify(long)
    const asked = `POST /chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: ${service.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const sockets = await Promise.all(Array.from({ length: 300 }, () => connected(service.url)))
    const refused: (readonly [first: string, second: string])[] = []
    // A burst may arrive so slowly that all of its requests are answered.
    for (let burst = 0; burst < 5 && refused.length === 0; burst++) {
      const replies = await Promise.all(sockets.map((socket) => twice(socket, asked)))
      refused.push(...replies.filter(([first]) => first.startsWith('HTTP/1.1 503 ')))
    }
    expect(refused.length).toBeGreaterThan(0)
    for (const [first, second] of refused) {
      expect(first).not.toMatch(/^connection: close/im)
      expect(second).toMatch(/^HTTP\/1\.1 200 /)
    }
    expect((await ask('/livez')).status).toBe(200)
  }, 20_000)
})

/** Opens a connection, which is closed at the end of the running test. */
async function connected(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  onTestFinished(() => void socket.destroy())
  return socket
}

/** Sends a request, and then the health check on the same connection. @returns both replies */
function twice(socket: Socket, asked: string): Promise<readonly [first: string, second: string]> {
  return new Promise((resolve, reject) => {
    let first: string | undefined
    let text = ''
    socket.setEncoding('latin1')
    const closed = () => reject(new Error(`the connection was closed after ${text.slice(0, 200)}`))
    const read = (piece: string) => {
      text += piece
      const end = text.indexOf('\r\n\r\n')
      const length = Number(/^content-length: (\d+)/im.exec(text.slice(0, Math.max(0, end)))?.[1])
      if (end === -1 || text.length < end + 4 + length) return
      if (first === undefined) {
        first = text
        text = ''
        socket.write('GET /livez HTTP/1.1\r\nhost: x\r\n\r\n')
      } else {
        socket.off('data', read).off('close', closed)
        resolve([first, text])
      }
    }
    socket.on('data', read).once('close', closed)
    socket.write(asked)
  })
}
