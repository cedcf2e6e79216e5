import fc from 'fast-check'

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1700000000, model: 'm' }

const word = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom(
    '"error"',
    '"usage":{',
    '"finish_reason":"stop"',
    'data: {',
    '\n\n',
    '}\n\n',
    '[DONE]',
    '🌱',
    '"}',
    '\\',
  ),
)

/** Fields that change with every event, or are the same. */
const more = fc.constantFrom({}, { usage: null }, { system_fingerprint: 'fp' }, { obfuscation: 'xyz' }, { created: 1 })

const chunkOf = (choice: object) => more.map((fields) => JSON.stringify({ ...head, choices: [choice], ...fields }))

const said = fc
  .record({
    content: word,
    role: fc.constantFrom(undefined, 'assistant', null, ''),
    place: fc.constantFrom('delta', 'delta', 'delta', 'message'),
  })
  .chain(({ content, role, place }) =>
    chunkOf({ index: 0, [place]: { ...(role === undefined ? {} : { role }), content }, finish_reason: null }),
  )

const callPiece = fc
  .record({
    index: fc.constantFrom(undefined, 0, 0, 1, '0', null),
    id: fc.constantFrom(undefined, undefined, '', 'a', 'b', 'c'),
    name: fc.constantFrom(undefined, undefined, '', 'f', 'g'),
    text: fc.constantFrom(undefined, '', '{', '"a":1', '}', { a: 1 }),
  })
  .map(({ index, id, name, text }) =>
    JSON.parse(JSON.stringify({ index, id, type: 'function', function: { name, arguments: text } })),
  )
const called = fc
  .array(callPiece, { minLength: 1, maxLength: 3 })
  .chain((tool_calls) => chunkOf({ index: 0, delta: { tool_calls }, finish_reason: null }))

const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
const noCompletion = fc.constantFrom(
  ...['', ' ', '{}', 'null', '{"type":"ping"}', '{"object":"warning","message":"slow"}', '[]', '"hi"', '1'],
  JSON.stringify({ ...head, choices: null }),
  JSON.stringify({ ...head, choices: [] }),
  JSON.stringify({ ...head, choices: [], usage }),
  JSON.stringify({ usage }),
)
const failing = fc.constantFrom(
  '{"error":{"message":"No."}}',
  '{"object":"error","message":"No."}',
  '{"type":"error","error":{"message":"No."}}',
  '{"detail":"No."}',
  '{not json',
  JSON.stringify({ ...head, choices: [{ index: 0, delta: {}, finish_reason: 'error' }] }),
)
const finish = fc
  .constantFrom('stop', 'length', 'tool_calls', '', null)
  .chain((finish_reason) => chunkOf({ index: 0, delta: {}, finish_reason }))

const event = fc.oneof(
  { weight: 8, arbitrary: said },
  { weight: 4, arbitrary: called },
  { weight: 3, arbitrary: noCompletion },
  { weight: 1, arbitrary: finish },
  { weight: 1, arbitrary: failing },
)

/** Events of the same form, which differ only in the model's words or the arguments of a call. */
const alike = fc
  .record({ words: fc.array(word, { minLength: 2, maxLength: 8 }), more, index: fc.constantFrom(undefined, 0, 1, '0') })
  .chain(({ words, more: fields, index }) =>
    fc
      .constantFrom(
        (content: string): object => ({ content }),
        (content: string) => ({ content, role: 'assistant' }),
        (reasoning_content: string) => ({ reasoning_content }),
        (text: string) => ({ tool_calls: [{ index, function: { arguments: text } }] }),
        (text: string) => ({ tool_calls: [{ index, id: 'a', function: { name: 'f', arguments: text } }] }),
      )
      .map((delta) =>
        words.map((text) =>
          JSON.stringify({ ...head, choices: [{ index: 0, delta: delta(text), finish_reason: null }], ...fields }),
        ),
      ),
  )

const plain = { line: '\n', prefix: 'data: ', before: '' }
/** How an event is written: its line end, the name of its field, and a line before it. */
const anyFrame = fc.record({
  line: fc.constantFrom('\n', '\n', '\n', '\r\n', '\r'),
  prefix: fc.constantFrom('data: ', 'data:'),
  before: fc.constantFrom('', '', '', ': comment', 'event: x', 'id: 1'),
})

/** Some events. In most streams all lines end with a line feed, and only such events may pass unread. */
const written = fc
  .tuple(
    fc.array(
      fc.oneof(
        event.map((data) => [data]),
        alike,
      ),
      { maxLength: 12 },
    ),
    fc.oneof({ weight: 2, arbitrary: fc.constant(fc.constant(plain)) }, fc.constant(anyFrame)),
  )
  .chain(([events, frame]) => {
    const data = events.flat()
    return fc.array(frame, { minLength: data.length, maxLength: data.length }).map((frames) =>
      frames.map(({ line, prefix, before }, place) => {
        const first = before === '' ? '' : before + line
        return first + prefix + (data[place] ?? '') + line + line
      }),
    )
  })

/** A streamed answer of any kind of events, as bytes in pieces. */
export const oddStream: fc.Arbitrary<readonly Buffer[]> = fc
  .record({
    mark: fc.constantFrom('', '', '\uFEFF'),
    events: written,
    end: fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constant(
          `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`,
        ),
      },
      fc.constantFrom('', 'data: [DONE]\n\n', 'data: [DONE]'),
    ),
    cuts: fc.array(fc.nat(3000), { maxLength: 5 }),
  })
  .map(({ mark, events, end, cuts }) => piecesOf(Buffer.from(mark + events.join('') + end), cuts))

/** A whole answer of any kind. */
export const oddBody: fc.Arbitrary<readonly Buffer[]> = fc
  .tuple(event, fc.array(fc.nat(600), { maxLength: 3 }), fc.constantFrom('', '\uFEFF', '\n '))
  .map(([data, cuts, before]) => piecesOf(Buffer.from(before + data), cuts))

function piecesOf(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [
    0,
    ...cuts.map((cut) => Math.min(cut, bytes.length)).toSorted((one, other) => one - other),
    bytes.length,
  ]
  return places
    .slice(1)
    .map((place, index) => bytes.subarray(places[index], place))
    .filter(({ length }) => length > 0)
}
