import Fastify from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { shedLoadUnderPressure } from '../../src/http/pressure.ts'
import { TestLoop } from '../support/clock.ts'
import { connectTo } from '../support/connection.ts'
import { onceAsked, serviceForThisTest, type TestService } from '../support/service.ts'
import { completion, upstreamForThisTest } from '../support/upstream.ts'

/** One of the replies on a connection. */
interface Reply {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** The service that gets the requests, and the key of the requests. */
type Asked = Pick<TestService, 'url' | 'key'>

/** A service whose load shedding gets the measurements of the test, and not those of the real event loop. */
async function guarded() {
  const loop = new TestLoop()
  const service = await serviceForThisTest({}, undefined, { loop })
  // The first request loads lazy modules.
  expect((await service.request('/plants', { json: { name: 'Fern' } })).status).toBe(200)
  return { loop, service }
}

/**
 * Sends requests over one connection in one piece, so that the service reads all of them in one turn of its event loop;
 * the clock advances by `perLook` milliseconds with each check.
 */
async function inOneTurn(
  service: Asked,
  loop: TestLoop,
  perLook: number,
  requests: readonly string[],
): Promise<readonly Reply[]> {
  const { socket, text } = await connectTo(service.url)
  loop.perLook = perLook
  socket.write(requests.join(''))
  let replies: readonly Reply[] = []
  while (replies.length < requests.length) {
    await new Promise((resolve) => socket.once('data', resolve))
    replies = repliesIn(text())
  }
  loop.perLook = 0
  // Refusals do not close the connection.
  socket.write(get(service, '/livez'))
  while (repliesIn(text()).length === requests.length) await new Promise((resolve) => socket.once('data', resolve))
  expect(repliesIn(text()).at(-1)?.status).toBe(200)
  return replies
}

/** The complete replies. */
function repliesIn(text: string): readonly Reply[] {
  const replies: Reply[] = []
  for (let rest = text; ; ) {
    const end = rest.indexOf('\r\n\r\n') + 4
    const head = rest.slice(0, end)
    const length = Number(/^content-length: (\d+)/im.exec(head)?.[1])
    if (end === 3 || rest.length < end + length) return replies
    replies.push({ status: Number(head.slice(9, 12)), head, body: rest.slice(end, end + length) })
    rest = rest.slice(end + length)
  }
}

const headers = ({ key }: Asked) => `host: x\r\nauthorization: Bearer ${key}\r\n`
const get = (service: Asked, path: string) => `GET ${path} HTTP/1.1\r\n${headers(service)}\r\n`
/** A request with a chunked body. The length of the body is unknown, so the request counts as large. */
const post = (service: Asked, path: string, json: unknown) => {
  const body = JSON.stringify(json)
  const more = `content-type: application/json\r\ntransfer-encoding: chunked\r\n`
  return `POST ${path} HTTP/1.1\r\n${headers(service)}${more}\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
}

const statuses = (replies: readonly Reply[]) => replies.map(({ status }) => status)
const times = (count: number, status: number) => Array.from({ length: count }, () => status)
const small = (service: TestService, count = 20) => Array.from({ length: count }, () => get(service, '/plants/7'))

describe('requests beyond the budget of a turn of the event loop', () => {
  const groups = [
    ['/plants', { name: 'Moss' }, { error: 503, message: expect.any(String) }],
    [
      '/chat/completions',
      { model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] },
      { error: { message: expect.any(String), type: 'server_error', param: null, code: 'overloaded' } },
    ],
  ] as const
  test.each(groups)(
    'are refused with 503 and Retry-After, in the error format of their route: %s',
    async (path, json, body) => {
      const { loop, service } = await guarded()
      const large = Array.from({ length: 20 }, () => post(service, path, json))
      const replies = await inOneTurn(service, loop, 15, large)
      const refused = replies.filter(({ status }) => status === 503)
      // At least twelve checks and 150 ms precede the thirteenth request. An earlier request may be refused at its body.
      expect(statuses(replies.slice(12))).toEqual(times(8, 503))
      expect(replies[0]?.status).toBe(200)
      for (const each of refused) {
        expect(each.head).toMatch(/^retry-after: 1\r$/im)
        expect(each.head).toMatch(/^x-request-id: req_/im)
        expect(each.head).toMatch(/^content-type: application\/json/im)
        expect(each.head).not.toMatch(/^connection: close/im)
        expect(JSON.parse(each.body)).toStrictEqual(body)
      }
      loop.advance(1000)
      expect(statuses(await inOneTurn(service, loop, 0, large))).toEqual(times(20, 200))
    },
  )

  test('include small requests for a second after a refusal, but never the first twelve of a turn', async () => {
    const { loop, service } = await guarded()
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual(times(20, 404))
    await inOneTurn(service, loop, 15, [...small(service, 12), post(service, '/plants', { name: 'Moss' })])
    loop.advance(600)
    const pressed = [...times(12, 404), ...times(8, 503)]
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual(pressed)
    // These requests use at most 40 ms of the turn.
    expect(statuses(await inOneTurn(service, loop, 2, small(service)))).toEqual(times(20, 404))
    loop.advance(1000)
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual(times(20, 404))
  })

  test('are refused even if they are small, after the event loop was late in two measurements in a row', async () => {
    const { loop, service } = await guarded()
    loop.lateness = 101
    loop.advance(500)
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual(times(20, 404))
    loop.advance(500)
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual([...times(12, 404), ...times(8, 503)])
    loop.lateness = 100
    loop.advance(1500)
    expect(statuses(await inOneTurn(service, loop, 15, small(service)))).toEqual(times(20, 404))
  })

  test('never include the probes', async () => {
    const { loop, service } = await guarded()
    const probes = ['/livez', '/readyz', '/livez', '/readyz'].map((path) => get(service, path))
    const large = post(service, '/plants', { name: 'Moss' })
    const replies = await inOneTurn(service, loop, 15, [...small(service, 12), large, ...probes])
    expect(statuses(replies)).toEqual([...times(12, 404), 503, ...times(4, 200)])
  })
})

/** Milliseconds between checks, and how far a large request gets. It is checked three times, after twelve other checks. */
const looks: readonly (readonly [perLook: number, reached: readonly string[], status: number])[] = [
  [13, [], 503],
  [12, ['its head'], 503],
  [11, ['its head', 'its body'], 503],
  [10, ['its head', 'its body', 'its work'], 200],
]
test.each(looks)(
  'a large request is checked before its body, before its handler, and before its work (%i ms between checks)',
  async (perLook, reached, status) => {
    const loop = new TestLoop()
    const app = Fastify()
    onTestFinished(() => app.close())
    const shedLoad = await shedLoadUnderPressure(app, loop)
    const seen: string[] = []
    app.get('/small', () => 'small')
    app.post('/large', {
      preParsing: async () => void seen.push('its head'),
      handler: (request) => {
        seen.push('its body')
        shedLoad(request)
        seen.push('its work')
        return 'large'
      },
    })
    app.get('/livez', () => 'alive')
    const service = { url: await app.listen({ host: '127.0.0.1', port: 0 }), key: 'none' }
    const requests = [...Array.from({ length: 12 }, () => get(service, '/small')), post(service, '/large', {})]
    const replies = await inOneTurn(service, loop, perLook, requests)
    expect(statuses(replies)).toEqual([...times(12, 200), status])
    expect(seen).toEqual(reached)
  },
)

test('requests that wait for an upstream are not refused, nor are requests that come meanwhile', async () => {
  const gate = Promise.withResolvers<void>()
  const upstream = await upstreamForThisTest(async (response) => {
    await gate.promise
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion('Hello there.')))
  })
  const loop = new TestLoop()
  const service = await serviceForThisTest({}, onceAsked(upstream.url), { loop })
  // The requests have more than 8 KiB, since large requests are refused first.
  const messages = [{ role: 'user', content: 'Hello. '.repeat(1500) }]
  const asking: Promise<Response>[] = []
  for (let batch = 1; batch <= 3; batch++) {
    for (let count = 0; count < 40; count++) {
      asking.push(service.request('/chat/completions', { json: { model: 'far', messages } }))
    }
    // The upstream replies later, so a reply before all requests have reached it would be a refusal.
    const refused = await Promise.race([upstream.called(batch * 40), ...asking])
    expect(refused).not.toHaveProperty('status')
    loop.advance(60_000)
  }
  gate.resolve()
  expect((await Promise.all(asking)).map(({ status }) => status)).toEqual(times(120, 200))
})
