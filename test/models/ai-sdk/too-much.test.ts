import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { BytesInFlight } from '../../../src/http/bytes-in-flight.ts'
import type { ProviderFetch } from '../../../src/models/ai-sdk/fetch.ts'
import { createAiSdkModel } from '../../../src/models/ai-sdk/model.ts'
import {
  asked,
  complete,
  failureFrom,
  stream,
  textOfStream,
  type Vendor,
  vendorForThisTest,
} from '../../support/ai-sdk.ts'
import { eventsOf, recorded } from '../../support/replay.ts'
import { pieces, type Script, upstreamForThisTest } from '../../support/upstream.ts'

const megabyte = 1024 ** 2
const tooMuch = {
  name: 'ApiError',
  status: 502,
  code: 'upstream_error',
  message: expect.stringMatching(/more at once/),
}

/** A provider's whole answer with these texts as its parts. */
function answer(vendor: Vendor, texts: readonly string[]): string {
  const { body } = recorded(`${vendor}/text.json`)
  if (vendor === 'anthropic') return JSON.stringify({ ...body, content: texts.map((text) => ({ type: 'text', text })) })
  const content = { role: 'model', parts: texts.map((text) => ({ text })) }
  return JSON.stringify({ ...body, candidates: [{ content, finishReason: 'STOP' }] })
}
const said =
  (body: string | Buffer, headers: Record<string, string> = {}): Script =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers })
    // A reader closes the connection when the answer exceeds a bound.
    response.on('error', () => {}).end(body)
  }

describe.each<Vendor>(['anthropic', 'google'])('an answer of %s', (vendor) => {
  test.each<[string, Script]>([
    ['20,000 parts', said(answer(vendor, Array(20_000).fill('Hi')))],
    ['17 MB', said(answer(vendor, ['a'.repeat(17 * megabyte)]))],
    ['17 MB, compressed', said(gzipSync(answer(vendor, ['a'.repeat(17 * megabyte)])), { 'content-encoding': 'gzip' })],
  ])('that is whole is refused over a bound: %s', async (_what, script) => {
    const { model } = await vendorForThisTest(vendor, [script])
    expect(await failureFrom(complete(model, asked()))).toMatchObject(tooMuch)
  })

  test.each<[string, string | Buffer, Record<string, string>]>([
    ['much text in one part', answer(vendor, ['word, {"a": [1]} '.repeat(100_000)]), {}],
    ['a thousand parts', answer(vendor, Array(1000).fill('word, {"a": [1]} '.repeat(100))), {}],
    [
      'a compressed answer',
      gzipSync(answer(vendor, ['word, {"a": [1]} '.repeat(100_000)])),
      { 'content-encoding': 'gzip' },
    ],
  ])('below the bounds is served: %s', async (_what, body, headers) => {
    const { model } = await vendorForThisTest(vendor, [said(body, headers)])
    const { choices } = await complete(model, asked())
    expect(choices[0]?.message.content).toBe('word, {"a": [1]} '.repeat(100_000))
  })

  const events = eventsOf(`${vendor}/text-stream.txt`)
  test.each<[string, readonly string[]]>([
    ['an event of 20,000 parts', [`data: ${answer(vendor, Array(20_000).fill('Hi'))}\n\n`]],
    ['an event of 20,000 parts in as many lines', [`data: [{}\n${'data: ,{}\n'.repeat(20_000)}data: ]\n\n`]],
    ['an event without an end', Array(17).fill('a'.repeat(megabyte))],
    ['200,000 events', Array(4).fill('data: {}\n\n'.repeat(50_000))],
    ['65 MB of events', Array(65).fill(`: ${'a'.repeat(megabyte)}\n\n`)],
  ])('that is a stream breaks off over a bound: %s', async (_what, more) => {
    const { model } = await vendorForThisTest(vendor, [pieces([...events.slice(0, 4), ...more, ...events.slice(4)])])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(error).toMatchObject(tooMuch)
    expect(textOfStream(chunks)).toMatch(/^(Yellow.*)?$/)
  })

  test('that is an error is read up to 64 KiB', async () => {
    let wasRead = 0
    const script: Script = (response) => {
      response.writeHead(500, { 'content-type': 'application/json' })
      const go = (): void => {
        while (!response.destroyed && wasRead < 100 * megabyte) {
          wasRead += megabyte
          if (!response.write('a'.repeat(megabyte))) return void response.once('drain', go)
        }
      }
      response.on('error', () => {})
      go()
    }
    const { model } = await vendorForThisTest(vendor, [script])
    expect(await failureFrom(complete(model, asked()))).toMatchObject({ status: 502, code: 'upstream_error' })
    expect(wasRead).toBeLessThan(50 * megabyte)
  })

  test('counts as bytes in flight until it is passed on, and is refused if there is no room', async () => {
    const inFlight = new BytesInFlight(8 * megabyte)
    const body = answer(vendor, ['a'.repeat(megabyte)])
    const { model } = await vendorForThisTest(vendor, [said(body), said(answer(vendor, ['a'.repeat(5 * megabyte)]))])
    const seen: number[] = []
    const openHeld = () => {
      const held = inFlight.open(1)
      const { set } = held
      held.set = (bytes) => {
        set.call(held, bytes)
        seen.push(inFlight.bytes)
      }
      return held
    }
    await complete(model, { ...asked(), openHeld })
    expect(Math.max(...seen)).toBe(body.length)
    expect(inFlight.bytes).toBe(0)
    const failure = await failureFrom(complete(model, { ...asked(), openHeld }))
    expect(failure).toMatchObject({ status: 503, code: 'overloaded', headers: { 'retry-after': '1' } })
    expect(inFlight.bytes).toBe(0)
  })
})

test('a stream with too many tool calls breaks off', async () => {
  const begin = eventsOf('anthropic/tool-calls-stream.txt').slice(0, 2)
  const call = (index: number) => {
    const content_block = { type: 'tool_use', id: `t${index}`, name: 'f', input: {} }
    return `data: ${JSON.stringify({ type: 'content_block_start', index, content_block })}\n\n`
  }
  const { model } = await vendorForThisTest('anthropic', [
    pieces([...begin, Array.from({ length: 1001 }, (_, index) => call(index)).join('')]),
  ])
  const { chunks, error } = await stream(model, asked({ stream: true }))
  expect(error).toMatchObject(tooMuch)
  expect(chunks.length).toBeGreaterThan(1000)
})

test('an answer that comes after the client left counts no bytes, even if the package ignores the signal', async () => {
  const inFlight = new BytesInFlight(8 * megabyte)
  const left = Promise.withResolvers<void>()
  const read = Promise.withResolvers<number>()
  const upstream = await upstreamForThisTest(async (response) => {
    await left.promise
    response.end('a'.repeat(megabyte))
  })
  const createDeaf = ({ fetch }: Pick<ProviderFetch, 'fetch'>) => {
    const doGenerate = async () => {
      const answer = await fetch(upstream.url, { method: 'POST', body: '{}' })
      read.resolve((await answer.text()).length)
    }
    return {
      languageModel: () => ({ specificationVersion: 'v4', supportedUrls: {}, doGenerate, doStream: doGenerate }),
    }
  }
  const model = createAiSdkModel({ adapter: 'deaf', model: 'm' }, async () => ({ createDeaf }))
  onTestFinished(() => model.close())
  const client = new AbortController()
  const failure = failureFrom(complete(model, { ...asked(), openHeld: () => inFlight.open(1) }, client.signal))
  await upstream.called(1)
  client.abort()
  expect(await failure).toMatchObject({ code: 'client_gone' })
  left.resolve()
  expect(await read.promise).toBe(megabyte)
  expect(inFlight.bytes).toBe(0)
})
