import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { replay } from '../../support/replay.ts'
import { serviceForThisTest } from '../../support/service.ts'
import { answering } from '../../support/two-upstreams.ts'
import { type Script, upstreamForThisTest } from '../../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]

/** Answers the first request of each connection, and closes the connection at its second request. */
function closing(close: (socket: Socket) => void, answer: Script): Script {
  const known = new Set<Socket>()
  return async (response, call) => {
    const { socket } = response
    if (!socket) throw new Error('no connection')
    if (known.has(socket)) return close(socket)
    known.add(socket)
    await answer(response, call)
  }
}

const endings: readonly (readonly [what: string, close: (socket: Socket) => void])[] = [
  ['ended', (socket) => void socket.end()],
  ['destroyed', (socket) => void socket.destroy()],
  ['reset', (socket) => void socket.resetAndDestroy()],
]

test.each(endings)(
  'a reused connection that is %s is replaced at once, and counts neither as a failure nor as a retry',
  async (_what, close) => {
    const upstream = await upstreamForThisTest(closing(close, answering('Here.')))
    // With these settings, one failure would open the breaker, and no request is retried.
    const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0, breaker: { failures: 1, pause: 60_000 } }
    const service = await serviceForThisTest({}, { model })
    for (const stream of [false, true, false, true]) {
      const response = await service.request('/chat/completions', { json: { model: 'model', messages, stream } })
      expect([response.status, (await response.text()).includes('Here.')]).toEqual([200, true])
      const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
      expect(await record.json()).toMatchObject({ state: 'stop', retries: 0 })
    }
    // Each request but the first was sent twice: first on the closed connection of the request before.
    expect(upstream.calls).toHaveLength(7)
  },
)

test('a new connection that is closed is a failure, and is not replaced', async () => {
  const upstream = await upstreamForThisTest((response) => void response.socket?.destroy())
  const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
  const service = await serviceForThisTest({}, { model })
  expect((await service.request('/chat/completions', { json: { model: 'model', messages } })).status).toBe(502)
  expect(upstream.calls).toHaveLength(1)
})

test('a closed connection that a provider package reuses is replaced', async () => {
  const upstream = await upstreamForThisTest(closing((socket) => void socket.end(), replay('anthropic/text.json')))
  const model = { adapter: '@ai-sdk/anthropic', model: 'claude', baseUrl: upstream.url, apiKey: 'k', retries: 0 }
  const service = await serviceForThisTest({}, { model })
  for (let count = 0; count < 3; count++) {
    expect((await service.request('/chat/completions', { json: { model: 'model', messages } })).status).toBe(200)
  }
  expect(upstream.calls).toHaveLength(5)
})
