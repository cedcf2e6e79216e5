import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Chunk, Completion } from '../../../src/openai/completion.ts'
import {
  asked,
  complete,
  gardenTools,
  stream,
  textOfStream,
  type Vendor,
  vendorForThisTest,
} from '../../support/ai-sdk.ts'
import { often } from '../../support/often.ts'
import { eventsOf, recorded } from '../../support/replay.ts'
import { json, pieces, sse } from '../../support/upstream.ts'

const event = (value: unknown) => sse(JSON.stringify(value))
const begun = { type: 'message_start', message: { id: 'm1', model: 'claude', usage: { input_tokens: 9 } } }
const block = (index: number, content_block: object) => ({ type: 'content_block_start', index, content_block })
const delta = (index: number, more: object) => ({ type: 'content_block_delta', index, delta: more })
const stopped = (index: number) => ({ type: 'content_block_stop', index })
const says = (text: string, index = 0) => [
  block(index, { type: 'text', text: '' }),
  delta(index, { type: 'text_delta', text }),
  stopped(index),
]
const ended = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } },
  { type: 'message_stop' },
]

/** What a model makes of an answer: the same for a whole and for a streamed request. */
async function readings(vendor: Vendor, script: ReturnType<typeof json>) {
  const { model } = await vendorForThisTest(vendor, [script])
  const whole = await complete(model, asked({ tools: gardenTools })).catch((error: unknown) => error)
  const streamed = await stream(model, asked({ tools: gardenTools, stream: true }))
  return { whole, streamed }
}

/** The text, thinking, calls, end and usage of an answer. */
function meaningOf(chunks: readonly Chunk[]) {
  const deltas = chunks.flatMap(({ choices }) => choices.map((choice) => choice.delta))
  const calls = deltas.flatMap((each) => each.tool_calls ?? [])
  const indexes = [...new Set(calls.map(({ index }) => index))]
  return {
    text: textOfStream(chunks),
    thinking: deltas.map((each) => ('reasoning_content' in each ? each.reasoning_content : '')).join(''),
    calls: indexes.map((index) => {
      const own = calls.filter((call) => call.index === index)
      const given = own.map((call) => call.function?.arguments ?? '').join('')
      return [own.map((call) => call.function?.name ?? '').join(''), JSON.parse(given || '{}')]
    }),
    end: chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason)).find((each) => each !== null),
    usage: chunks.find(({ usage }) => usage)?.usage?.completion_tokens,
  }
}

function meaningOfWhole(completion: Completion) {
  const [choice] = completion.choices
  if (!choice) throw new Error('no choice')
  const { message } = choice
  return {
    text: message.content ?? '',
    thinking: 'reasoning_content' in message ? message.reasoning_content : '',
    calls: (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
    end: choice.finish_reason,
    usage: completion.usage?.completion_tokens,
  }
}

const isCompletion = (value: unknown): value is Completion =>
  typeof value === 'object' && value !== null && 'choices' in value

const answers: [string, Vendor, unknown[], object][] = [
  [
    'an event of an unknown type',
    'anthropic',
    [begun, { type: 'future_event', data: [1] }, ...says('Yes.'), ...ended],
    { text: 'Yes.' },
  ],
  [
    'a block of an unknown type with its deltas',
    'anthropic',
    [
      begun,
      block(0, { type: 'future_block', text: 'No.' }),
      delta(0, { type: 'text_delta', text: 'No.' }),
      stopped(0),
      ...says('Yes.', 1),
      ...ended,
    ],
    { text: 'Yes.' },
  ],
  [
    'a delta of an unknown type',
    'anthropic',
    [begun, ...says('Yes.'), delta(0, { type: 'future_delta', x: 1 }), ...ended],
    { text: 'Yes.' },
  ],
  [
    'citations of an unknown form',
    'anthropic',
    [
      begun,
      block(0, { type: 'text', text: '', citations: [{ type: 'odd' }] }),
      delta(0, { type: 'citations_delta', citation: { type: 'odd' } }),
      delta(0, { type: 'text_delta', text: 'Yes.' }),
      stopped(0),
      ...ended,
    ],
    { text: 'Yes.' },
  ],
  [
    'a text in the start of a block',
    'anthropic',
    [begun, block(0, { type: 'text', text: 'Y' }), delta(0, { type: 'text_delta', text: 'es.' }), stopped(0), ...ended],
    { text: 'Yes.' },
  ],
  [
    'no usage',
    'anthropic',
    [{ ...begun, message: { id: 'm1' } }, ...says('Yes.'), { ...ended[0], usage: undefined }, ended[1]],
    { text: 'Yes.', usage: undefined },
  ],
  [
    'usage only in the beginning',
    'anthropic',
    [
      { ...begun, message: { usage: { input_tokens: 9, output_tokens: 3 } } },
      ...says('Yes.'),
      { ...ended[0], usage: undefined },
      ended[1],
    ],
    { text: 'Yes.', usage: 3 },
  ],
  ['no beginning', 'anthropic', [...says('Yes.'), ...ended], { text: 'Yes.' }],
  ['no end after the stop reason', 'anthropic', [begun, ...says('Yes.'), ended[0]], { text: 'Yes.', end: 'stop' }],
  ['blocks that do not stop', 'anthropic', [begun, ...says('Yes.').slice(0, 2), ...ended], { text: 'Yes.' }],
  [
    'unsigned thinking',
    'anthropic',
    [
      begun,
      block(0, { type: 'thinking', thinking: 'H' }),
      delta(0, { type: 'thinking_delta', thinking: 'm.' }),
      stopped(0),
      ...says('Yes.', 1),
      ...ended,
    ],
    { text: 'Yes.', thinking: 'Hm.' },
  ],
  [
    'a call whose input is in its start',
    'anthropic',
    [
      begun,
      block(0, { type: 'tool_use', id: 't1', name: 'soil_moisture', input: { bed: 'n' } }),
      stopped(0),
      { ...ended[0], delta: { stop_reason: 'tool_use' } },
      ended[1],
    ],
    { calls: [['soil_moisture', { bed: 'n' }]], end: 'tool_calls' },
  ],
  [
    'a call without an id',
    'anthropic',
    [
      begun,
      block(0, { type: 'tool_use', name: 'all_beds', input: {} }),
      stopped(0),
      { ...ended[0], delta: { stop_reason: 'tool_use' } },
      ended[1],
    ],
    { calls: [['all_beds', {}]], end: 'tool_calls' },
  ],
  [
    'data without JSON of an answer',
    'anthropic',
    [begun, {}, null, { note: 'slow' }, ...says('Yes.'), ...ended],
    { text: 'Yes.' },
  ],
  [
    'a part of an unknown kind',
    'google',
    [
      {
        candidates: [{ content: { parts: [{ futurePart: { a: 1 } }, { text: 'Yes.' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 3 },
      },
    ],
    { text: 'Yes.', usage: 3 },
  ],
  [
    'an odd field beside the text',
    'google',
    [
      {
        candidates: [
          {
            content: { parts: [{ text: 'Yes.' }] },
            safetyRatings: 'none',
            groundingMetadata: [1],
            finishReason: 'STOP',
          },
        ],
      },
    ],
    { text: 'Yes.', usage: undefined },
  ],
  [
    'unsigned thoughts',
    'google',
    [
      {
        candidates: [{ content: { parts: [{ text: 'Hm.', thought: true }, { text: 'Yes.' }] }, finishReason: 'STOP' }],
      },
    ],
    { text: 'Yes.', thinking: 'Hm.' },
  ],
  [
    'a heartbeat',
    'google',
    [{}, { note: 1 }, { candidates: [{ content: { parts: [{ text: 'Yes.' }] }, finishReason: 'STOP' }] }],
    { text: 'Yes.' },
  ],
  [
    'a reason of a filter',
    'google',
    [{ candidates: [{ finishReason: 'IMAGE_PROHIBITED_CONTENT' }] }],
    { text: '', end: 'content_filter' },
  ],
]

describe('an answer is read', () => {
  test.each(answers)('with %s (%s)', async (_what, vendor, events, expected) => {
    const { whole, streamed } = await readings(vendor, pieces(events.map(event)))
    expect(streamed.error).toBeUndefined()
    expect(meaningOf(streamed.chunks)).toMatchObject(expected)
    if (!isCompletion(whole)) throw whole
    expect(meaningOfWhole(whole)).toEqual(meaningOf(streamed.chunks))
  })

  test.each<Vendor>(['anthropic', 'google'])('as JSON where events were asked for (%s)', async (vendor) => {
    for (const name of ['text', 'tool-calls', 'thinking']) {
      const { whole, streamed } = await readings(vendor, json(recorded(`${vendor}/${name}.json`).body))
      if (!isCompletion(whole)) throw whole
      expect(streamed.error).toBeUndefined()
      expect(meaningOf(streamed.chunks)).toEqual(meaningOfWhole(whole))
    }
  })

  test('as a list of JSON (google)', async () => {
    const part = (text: string, more = {}) => ({ candidates: [{ content: { parts: [{ text }] }, ...more }] })
    const { whole, streamed } = await readings('google', json([part('Ye'), part('s.', { finishReason: 'STOP' })]))
    if (!isCompletion(whole)) throw whole
    expect([meaningOfWhole(whole), meaningOf(streamed.chunks)]).toMatchObject([{ text: 'Yes.' }, { text: 'Yes.' }])
  })
})

test.each<[Vendor, unknown]>([
  ['anthropic', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }],
  ['anthropic', { error: 'The queue is full.' }],
  ['google', { error: { code: 429, message: 'Quota', status: 'RESOURCE_EXHAUSTED' } }],
  ['google', [{ error: { code: 503, message: 'Busy', status: 'UNAVAILABLE' } }]],
])('an error in a 200 is a failure, whole and streamed (%s %j)', async (vendor, body) => {
  const { whole, streamed } = await readings(vendor, json(body))
  expect(whole).toMatchObject({ name: 'ApiError' })
  expect(streamed.error).toMatchObject({ name: 'ApiError' })
  expect(streamed.chunks).toEqual([])
})

test.each<Vendor>(['anthropic', 'google'])('text that is no answer is a 502 (%s)', async (vendor) => {
  for (const body of ['<html>', '{"id":', '"text"', '']) {
    const script = pieces([body])
    const { whole, streamed } = await readings(vendor, script)
    expect([whole, streamed.error]).toMatchObject([{ status: 502 }, { status: 502 }])
  }
})

const extras: Record<Vendor, readonly string[]> = {
  anthropic: [
    'data:\n\n',
    ': note\n\n',
    event({ type: 'ping' }),
    event({ type: 'future_event' }),
    event({ note: 1 }),
    event(null),
  ],
  google: ['data:\n\n', ': note\n\n', event({}), event({ futureField: { a: [1] } }), event(null)],
}

test.each<[Vendor, string]>(
  (['anthropic', 'google'] as const).flatMap((vendor) =>
    ['text-stream', 'tool-calls-stream', 'thinking-stream'].map((name): [Vendor, string] => [vendor, name]),
  ),
)('a stream means the same with other events in it, however it is cut (%s %s)', async (vendor, name) => {
  const events = eventsOf(`${vendor}/${name}.txt`)
  const { model, upstream } = await vendorForThisTest(vendor, [pieces(events)])
  const request = asked({ stream: true, tools: gardenTools })
  const expected = meaningOf((await stream(model, request)).chunks)
  const drawn = fc.record({
    added: fc.array(fc.tuple(fc.nat(events.length), fc.constantFrom(...extras[vendor])), { maxLength: 8 }),
    cuts: fc.array(fc.nat(4000), { maxLength: 6 }),
    end: fc.constantFrom('\n', '\r\n', '\r'),
  })
  await fc.assert(
    fc.asyncProperty(drawn, async ({ added, cuts, end }) => {
      const all = events.map(
        (each, index) => each + added.flatMap(([at, extra]) => (at === index ? extra : [])).join(''),
      )
      const bytes = Buffer.from(all.join('').replaceAll(/\r?\n/g, end))
      const places = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length]
      const cut = places.slice(1).map((place, index) => bytes.subarray(places[index], place))
      upstream.answer(pieces(cut))
      const { chunks, error } = await stream(model, request)
      expect([error, meaningOf(chunks)]).toEqual([undefined, expected])
    }),
    { numRuns: often(40) },
  )
})
