import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { BytesInFlight } from '../../../src/http/bytes-in-flight.ts'
import { createAiSdkModel } from '../../../src/models/ai-sdk/model.ts'
import { turnOfLoop } from '../../../src/turn.ts'
import { asked, complete, failureFrom } from '../../support/ai-sdk.ts'

/**
 * A model whose package notes the turns of the event loop in which it translates a call, and how many calls are in flight
 * together.
 */
function noting() {
  const turns: number[] = []
  const inFlight: number[] = []
  let calls = 0
  const doGenerate = async () => {
    // Packages await several things before they write the request, but nothing that takes another turn.
    for (let count = 0; count < 5; count++) await undefined
    turns.push(turnOfLoop())
    inFlight.push(++calls)
    for (let count = 0; count < 20; count++) await nextTurn()
    calls--
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
    return { content: [], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] }
  }
  const languageModel = () => ({ specificationVersion: 'v4', supportedUrls: {}, doGenerate, doStream: doGenerate })
  const model = createAiSdkModel({ adapter: 'noting', model: 'm', apiKey: 'k' }, async () => ({
    createNoting: () => ({ languageModel }),
  }))
  return { model, turns, inFlight }
}

const saying = (length: number) => asked({ messages: [{ role: 'user', content: 'a'.repeat(length) }] })
const ofEach = (turns: readonly number[]) => turns.map((turn) => turns.filter((other) => other === turn).length)

test('calls with megabytes have turns of the event loop of their own', async () => {
  const { model, turns } = noting()
  await Promise.all(Array.from({ length: 5 }, () => complete(model, saying(1_000_000))))
  expect(ofEach(turns)).toEqual([1, 1, 1, 1, 1])
})

test.each([
  ['a file', { file: { file_data: 'A'.repeat(1_000_000) }, type: 'file' as const }],
  ['a picture', { image_url: { url: `data:image/png;base64,${'A'.repeat(1_000_000)}` }, type: 'image_url' as const }],
  ['a sound', { input_audio: { data: 'A'.repeat(1_000_000), format: 'wav' }, type: 'input_audio' as const }],
])('also if the megabytes are %s', async (_what, part) => {
  const { model, turns } = noting()
  const request = asked({ messages: [{ role: 'user', content: [part] }] })
  await Promise.all(Array.from({ length: 3 }, () => complete(model, request)))
  expect(ofEach(turns)).toEqual([1, 1, 1])
})

test('many short calls share a turn', async () => {
  const { model, turns } = noting()
  await complete(model, saying(5))
  await Promise.all(Array.from({ length: 100 }, () => complete(model, saying(5))))
  expect(Math.max(...ofEach(turns))).toBeGreaterThan(20)
  expect(Math.max(...ofEach(turns))).toBeLessThan(80)
})

test('a call does not begin if its request has ended while it waited', async () => {
  const { model, turns } = noting()
  const caller = new AbortController()
  const first = complete(model, saying(1_000_000))
  const second = failureFrom(complete(model, saying(1_000_000), caller.signal))
  caller.abort()
  await first
  expect(await second).toMatchObject({ status: 499, code: 'client_gone' })
  expect(turns).toHaveLength(1)
})

test.each([
  // An account may hold half of the bytes. A call is counted with three bytes for each of its 100,000 characters.
  ['all together, if there is room for them', 8_000_000, [1, 2, 3, 4]],
  ['as many as there is room for', 1_400_000, [1, 2, 3, 1]],
  ['one after another, without room', 400_000, [1, 1, 1, 1]],
])('the choices of one request are asked %s', async (_what, maxBytes, expected) => {
  const { model, inFlight } = noting()
  const bytes = new BytesInFlight(maxBytes)
  const request = { ...saying(100_000), openHeld: () => bytes.open(1) }
  await complete(model, { ...request, body: { ...request.body, n: 4 } })
  expect(inFlight).toEqual(expected)
  expect([bytes.bytes, bytes.refusals]).toEqual([0, 0])
})

test('without a count of bytes, all choices are asked together', async () => {
  const { model, inFlight } = noting()
  await complete(model, asked({ n: 3 }))
  expect(inFlight).toEqual([1, 2, 3])
})
