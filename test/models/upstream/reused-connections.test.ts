import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { replay } from '../../support/replay.ts'
import { serviceForThisTest } from '../../support/service.ts'
import { answering } from '../../support/two-upstreams.ts'
import { type Script, upstreamForThisTest } from '../../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]

/** Answers the first request of each connection, and closes it in place of another answer. */
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

test.each(endings)('a kept connection that is %s is replaced at once, uncounted', async (_what, close) => {
  const upstream = await upstreamForThisTest(closing(close, answering('Here.')))
  // One failure would shut the model, and no retry would mend it.
  const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0, breaker: { failures: 1, pause: 60_000 } }
  const service = await serviceForThisTest({}, { model })
  for (const stream of [false, true, false, true]) {
    const response = await service.request('/chat/completions', { json: { model: 'model', messages, stream } })
    expect([response.status, (await response.text()).includes('Here.')]).toEqual([200, true])
    const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
    expect(await record.json()).toMatchObject({ state: 'stop', retries: 0 })
  }
  // Each but the first has met the connection of the one before it.
  expect(upstream.calls).toHaveLength(7)
})

test('a new connection that is closed is a failure, and is not made again', async () => {
  const upstream = await upstreamForThisTest((response) => void response.socket?.destroy())
  const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
  const service = await serviceForThisTest({}, { model })
  expect((await service.request('/chat/completions', { json: { model: 'model', messages } })).status).toBe(502)
  expect(upstream.calls).toHaveLength(1)
})

test('so is one that a provider package has kept', async () => {
  const upstream = await upstreamForThisTest(closing((socket) => void socket.end(), replay('anthropic/text.json')))
  const model = { adapter: '@ai-sdk/anthropic', model: 'claude', baseUrl: upstream.url, apiKey: 'k', retries: 0 }
  const service = await serviceForThisTest({}, { model })
  for (let count = 0; count < 3; count++) {
    expect((await service.request('/chat/completions', { json: { model: 'model', messages } })).status).toBe(200)
  }
  expect(upstream.calls).toHaveLength(5)
})
