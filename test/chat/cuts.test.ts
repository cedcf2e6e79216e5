import { setTimeout as wait } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseStream, readChatError } from '../support/chat.ts'
import { onceAsked, startTestService, type TestService } from '../support/service.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let upstream: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream()
  service = await startTestService({}, onceAsked(upstream.url))
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

/**
 * A chunk. The chunks are short, because the test sends a request for each byte of the stream; only the event `full` has the
 * optional fields.
 */
const chunk = (index: number, delta: object, more: object = {}): string =>
  JSON.stringify({ choices: [{ index, delta, ...more }] })
const full = '{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Ü"},"finish_reason":null}]}'
const usage = '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'

interface Stream {
  readonly what: string
  readonly n: number
  readonly events: readonly string[]
  /** The number of events that must arrive whole for a success. */
  readonly enough: number
  readonly lineEnd: string
}

const one = [
  full,
  chunk(0, { content: ' 🌵' }),
  chunk(0, { content: '다.' }),
  chunk(0, {}, { finish_reason: 'stop' }),
  usage,
]
const two = [
  chunk(0, { role: 'assistant', content: 'Ü' }),
  chunk(1, { role: 'assistant', content: '🌵' }),
  chunk(1, {}, { finish_reason: 'length' }),
  chunk(0, { content: '다' }),
  chunk(0, {}, { finish_reason: 'stop' }),
  usage,
]
const streams: readonly Stream[] = [
  { what: 'one choice', n: 1, events: one, enough: 4, lineEnd: '\n' },
  { what: 'one choice, CRLF', n: 1, events: one, enough: 4, lineEnd: '\r\n' },
  { what: 'two choices', n: 2, events: two, enough: 5, lineEnd: '\n' },
]

describe.each(['end', 'cut', 'reset'] as const)('a stream that breaks off at any byte (%s)', (how) => {
  test.each(streams)('gives the exact beginning and an error event, or the complete stream: $what', async (stream) => {
    const { n, events, enough, lineEnd } = stream
    const lines = [...events, '[DONE]'].map((event) => Buffer.from(`data: ${event}${lineEnd}${lineEnd}`))
    const bytes = Buffer.concat(lines)
    upstream.answer(async (response, call) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const offset = Number(call.body['offset'])
      response.write(bytes.subarray(0, offset))
      await wait(1)
      if (how === 'end') response.end()
      // The last chunk of the chunked encoding is missing: all bytes arrive, and then the connection ends.
      else if (how === 'cut') response.socket?.end()
      else response.socket?.resetAndDestroy()
    })
    // An event has arrived when its text has arrived; its blank line may be missing at the end.
    const ends = lines.map((line, index) => sum(lines.slice(0, index)) + line.length - 2 * lineEnd.length)
    const blanks = lines.map((_line, index) => sum(lines.slice(0, index + 1)))
    // CRLF is tested only near the ends of lines: within a line it makes no difference.
    const isNearEnd = (offset: number) =>
      offset === 0 || blanks.some((end) => Math.abs(end - lineEnd.length - offset) <= 3)
    const offsets = Array.from({ length: bytes.length + 1 }, (_, offset) => offset)
    const cases = offsets.filter((offset) => lineEnd === '\n' || isNearEnd(offset)).values()
    const worker = async () => {
      for (const offset of cases) {
        const most = ends.filter((end) => end <= offset).length
        const least = how === 'reset' ? 0 : how === 'end' ? most : blanks.filter((end) => end <= offset).length
        const seen = await outcomeOf(offset, n)
        const at = `${how} at ${offset} of ${bytes.length}`
        // The usage was not requested; [DONE] is not among the compared events.
        const told = events.filter((event) => event !== usage)
        expect([at, seen.events]).toEqual([at, told.slice(0, seen.events.length)])
        expect([at, seen.events.length <= Math.min(most, told.length)]).toEqual([at, true])
        expect([at, seen.events.length >= Math.min(least, told.length)]).toEqual([at, true])
        expect([at, seen.errors]).toEqual([at, seen.isDone ? 0 : 1])
        if (seen.isDone) expect([at, most >= enough]).toEqual([at, true])
        if (how === 'end') expect([at, seen.isDone]).toEqual([at, most >= enough])
        if (how === 'cut' && least >= enough) expect([at, seen.isDone]).toEqual([at, true])
      }
    }
    await Promise.all(Array.from({ length: 16 }, worker))
  })
})

interface Outcome {
  readonly events: readonly string[]
  readonly errors: number
  readonly isDone: boolean
}

async function outcomeOf(offset: number, n: number): Promise<Outcome> {
  const messages = [{ role: 'user', content: 'Hello' }]
  // `request` of undici takes less CPU time than `fetch`.
  const { statusCode, body } = await request(`${service.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages, stream: true, n, offset }),
  })
  const text = await body.text()
  if (statusCode !== 200) {
    expect(statusCode).toBe(502)
    await readChatError(new Response(text))
    return { events: [], errors: 1, isDone: false }
  }
  const { data, errors, isDone } = parseStream(text)
  expect(data.at(-1) === '[DONE]').toBe(isDone)
  return {
    events: data.filter((event) => event !== '[DONE]' && !event.includes('"error"')),
    errors: errors.length,
    isDone,
  }
}

function sum(lines: readonly Buffer[]): number {
  return lines.reduce((total, { length }) => total + length, 0)
}
