import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createAiSdkModel } from '../../../src/models/ai-sdk/model.ts'
import { asked, complete, failureFrom } from '../../support/ai-sdk.ts'

/** A model whose package notes the turns of the event loop in which calls begin, and how many calls are in flight together. */
function noting() {
  let turn = 0
  let ticking = setImmediate(function tick() {
    turn++
    ticking = setImmediate(tick)
  })
  onTestFinished(() => clearImmediate(ticking))
  const turns: number[] = []
  const inFlight: number[] = []
  let calls = 0
  const doGenerate = async () => {
    // Packages await several things before they write the request, but nothing that takes another turn.
    for (let count = 0; count < 5; count++) await undefined
    turns.push(turn)
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

test('calls with megabytes begin in turns of the event loop of their own', async () => {
  const { model, turns, inFlight } = noting()
  await Promise.all(Array.from({ length: 5 }, () => complete(model, saying(1_000_000))))
  expect(new Set(turns).size).toBe(5)
  expect(inFlight).toEqual([1, 2, 3, 4, 5])
})

test.each([
  ['a file', { file: { file_data: 'A'.repeat(1_000_000) }, type: 'file' as const }],
  ['a picture', { image_url: { url: `data:image/png;base64,${'A'.repeat(1_000_000)}` }, type: 'image_url' as const }],
  ['a sound', { input_audio: { data: 'A'.repeat(1_000_000), format: 'wav' }, type: 'input_audio' as const }],
])('also if the megabytes are %s', async (_what, part) => {
  const { model, turns } = noting()
  const request = asked({ messages: [{ role: 'user', content: [part] }] })
  await Promise.all(Array.from({ length: 3 }, () => complete(model, request)))
  expect(new Set(turns).size).toBe(3)
})

test('short calls do not wait for others', async () => {
  const { model, turns } = noting()
  await Promise.all(Array.from({ length: 100 }, () => complete(model, saying(5))))
  expect(new Set(turns).size).toBe(1)
})

test('a call does not begin if its request has ended while it waited', async () => {
  const { model, inFlight } = noting()
  const caller = new AbortController()
  const first = complete(model, saying(1_000_000))
  const second = failureFrom(complete(model, saying(1_000_000), caller.signal))
  caller.abort()
  await first
  expect(await second).toMatchObject({ status: 499, code: 'client_gone' })
  expect(inFlight).toEqual([1])
})

test.each([
  ['together', 200_000, [1, 2, 3, 4]],
  ['one after another, if they are large', 300_000, [1, 1, 1, 1]],
])('the choices of one request are asked %s', async (_what, length, expected) => {
  const { model, inFlight } = noting()
  const request = saying(length)
  await complete(model, { ...request, body: { ...request.body, n: 4 } })
  expect(inFlight).toEqual(expected)
})
