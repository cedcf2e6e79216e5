import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { readChatError, readCompletion } from '../support/chat.ts'
import { type Meaning, meaningOfChat, meaningOfResponse } from '../support/meaning.ts'
import { chunkText, completion, json, pieces, type Script, sse } from '../support/upstream.ts'
import { onlyCall, post, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

const begun = chunkText({ role: 'assistant', content: '' })
const hi = chunkText({ content: 'Hi' })
const over = chunkText({}, 'stop')
const meant = { isSuccess: true, text: 'Hi', calls: [], isCut: false }
const broken = { ...meant, isSuccess: false, text: '' }
const bare = (more: object) =>
  JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...more })
const calling = (...tool_calls: readonly object[]) => chunkText({ tool_calls })
const piece = (index: unknown, id: string | undefined, name: string | undefined, text: unknown) => ({
  ...(index === undefined ? {} : { index }),
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { ...(name === undefined ? {} : { name }), arguments: text },
})
const events = (...each: readonly string[]): Script => pieces([sse(...each, '[DONE]')])
const called = (...calls: readonly string[]): Meaning => ({ ...meant, text: '', calls })
const answered = (...each: readonly string[]): Script => events(begun, ...each, chunkText({}, 'tool_calls'))
const raw =
  (status: number, headers: Record<string, string>, body: string | Buffer): Script =>
  (response) => {
    response.writeHead(status, headers).end(body)
  }
const whole = JSON.stringify(completion('Hi'))

/** Asks in one way. */
type Ask = () => Promise<Meaning>
const respond =
  (stream: boolean): Ask =>
  async () =>
    meaningOfResponse(
      await service.request('/responses', { json: { model: 'gpt-test', input: 'Hello', stream } }),
      stream,
    )
const chat =
  (body: object): Ask =>
  async () =>
    meaningOfChat(await post({ ...body }), 'stream' in body)
const asks: readonly (readonly [string, Ask])[] = [
  ['a stream', chat({ stream: true })],
  ['a stream with its usage', chat({ stream: true, stream_options: { include_usage: true } })],
  ['a stream of two choices', chat({ stream: true, n: 2 })],
  ['a whole answer', chat({})],
  ['a streamed response', respond(true)],
  ['a whole response', respond(false)],
]

const rows: readonly (readonly [what: string, script: Script, meaning: Meaning])[] = [
  ['a blank event first', events('', begun, hi, over), meant],
  ['a blank event in the middle', events(begun, hi, ' ', over), meant],
  ['a blank event before [DONE]', events(begun, hi, over, ''), meant],
  ['`choices: null` first', events(bare({ choices: null }), begun, hi, over), meant],
  ['`choices: null` in the middle', events(begun, bare({ choices: null }), hi, over), meant],
  ['`choices: null` at the end', events(begun, hi, over, bare({ choices: null })), meant],
  ['a heartbeat', events('{"type":"ping"}', begun, '{"event":"heartbeat"}', hi, over), meant],
  [
    'a `message` in the place of a `delta`',
    events(JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' } }] }), over),
    meant,
  ],
  ['only heartbeats', events('{"type":"ping"}', '{"type":"ping"}'), broken],
  [
    'a whole answer without anything',
    json({ choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: null }] }),
    broken,
  ],
  ['JSON without choices', json({ type: 'ping' }), broken],
  ['`detail`', json({ detail: 'Not found.' }), broken],
  ['an empty body', raw(200, {}, ''), broken],
  ['status 201 with a whole answer', json(completion('Hi'), 201), meant],
  [
    'status 202 with a stream',
    (response) =>
      void response.writeHead(202, { 'content-type': 'text/event-stream' }).end(sse(begun, hi, over, '[DONE]')),
    meant,
  ],
  ['a completion, whatever was asked for', json(completion('Hi')), meant],
  ['a completion after blank lines', raw(200, { 'content-type': 'application/json' }, `\n \n${whole}`), meant],
  ['a completion with a byte order mark', raw(200, {}, `\uFEFF${whole}`), meant],
  ['a stream with a byte order mark', pieces([`\uFEFF${sse(begun, hi, over, '[DONE]')}`]), meant],
  ['lines of JSON', raw(200, {}, [begun, hi, over].join('\n')), meant],
  [
    'events without blank lines',
    pieces([[begun, hi, over, '[DONE]'].map((data) => `data: ${data}\n`).join('')]),
    meant,
  ],
  ['gzip', raw(200, { 'content-encoding': 'gzip' }, gzipSync(whole)), meant],
  ['br', raw(200, { 'content-encoding': 'br' }, brotliCompressSync(whole)), meant],
  ['zstd', raw(200, { 'content-encoding': 'zstd' }, zstdCompressSync(whole)), meant],
  ['deflate', raw(200, { 'content-encoding': 'deflate' }, deflateSync(whole)), meant],
  ['deflate without the wrapper of zlib', raw(200, { 'content-encoding': 'deflate' }, deflateRawSync(whole)), meant],
  [
    'two calls with the same index',
    answered(calling(piece(0, 'a', 'f', '{}')), calling(piece(0, 'b', 'g', '{"a":1}'))),
    called('f {}', 'g {"a":1}'),
  ],
  [
    'two calls in one event with the same index',
    answered(calling(piece(0, 'a', 'f', '{}'), piece(0, 'b', 'f', '{"a":1}'))),
    called('f {}', 'f {"a":1}'),
  ],
  [
    'two calls with alternating pieces',
    answered(
      calling(piece(0, 'a', 'f', '')),
      calling(piece(0, 'b', 'g', '')),
      calling(piece(0, 'a', undefined, '{}')),
      calling(piece(0, 'b', undefined, '[]')),
    ),
    called('f {}', 'g []'),
  ],
  [
    'another id with every piece',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(0, 'b', undefined, '}')), calling(piece(0, 'c', '', ' '))),
    called('f {} '),
  ],
  [
    'the same id with every piece',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(0, 'a', 'f', '}'))),
    called('f {}'),
  ],
  [
    'calls without an index',
    answered(
      calling(piece(undefined, 'a', 'f', '{')),
      calling(piece(undefined, undefined, undefined, '}')),
      calling(piece(undefined, 'b', 'g', '{}')),
    ),
    called('f {}', 'g {}'),
  ],
  [
    'calls whose index is a text',
    answered(calling(piece('0', 'a', 'f', '{}')), calling(piece('0', 'b', 'g', '{}'))),
    called('f {}', 'g {}'),
  ],
  [
    'calls without an id',
    answered(
      calling(piece(0, undefined, 'f', '{')),
      calling(piece(0, undefined, undefined, '}')),
      calling(piece(1, undefined, 'g', '{}')),
    ),
    called('f {}', 'g {}'),
  ],
  [
    'a known id with another index',
    answered(calling(piece(0, 'a', 'f', '{')), calling(piece(1, 'a', undefined, '}'))),
    called('f {}'),
  ],
  ['arguments that are an object', answered(calling(piece(0, 'a', 'f', { big: 1 }))), called('f {"big":1}')],
  [
    'a whole answer with calls without ids, whose arguments are an object',
    json({
      choices: [
        {
          index: 0,
          message: {
            content: null,
            tool_calls: [piece(undefined, undefined, 'f', { a: 1 }), piece(undefined, undefined, 'f', '{}')],
          },
          finish_reason: 'tool_calls',
        },
      ],
    }),
    called('f {"a":1}', 'f {}'),
  ],
]

describe.each(asks)('asked for %s, the answer means what the upstream meant', (_asked, ask) => {
  test.each(rows)('%s', async (_what, script, meaning) => {
    upstream.answer(script)
    expect(await ask()).toEqual(meaning)
    onlyCall()
  })
})

test.each([{ stream: true }, { stream: true, n: 2 }])(
  'an error behind a heartbeat is still an HTTP error: %j',
  async (body) => {
    upstream.answer(events('{"type":"ping"}', '', '{"error":{"message":"No.","code":400}}'))
    const response = await post(body)
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ message: 'No.' })
  },
)

test('ids and indices that are missing are made, and a call has an id only in its first piece', async () => {
  upstream.answer(
    answered(
      calling(piece(undefined, undefined, 'f', '{')),
      calling(piece(undefined, 'a', 'g', '{')),
      calling(piece(undefined, 'a', 'g', '}')),
    ),
  )
  const text = await (await post({ stream: true })).text()
  const heads = text
    .split('\n\n')
    .filter((event) => event.includes('"tool_calls":'))
    .flatMap((event) => JSON.parse(event.slice(6)).choices[0].delta.tool_calls)
  expect(heads).toEqual([
    { index: 0, id: expect.stringMatching(/^call_\w+$/), type: 'function', function: { name: 'f', arguments: '{' } },
    { index: 1, id: 'a', type: 'function', function: { name: 'g', arguments: '{' } },
    { index: 1, function: { arguments: '}' } },
  ])
})

test('a number with more digits than a double stays as it was written, also in an answer that is changed', async () => {
  const number = '9223372036854775807'
  const calls = `[{"id":"a","function":{"name":"f","arguments":{"id":${number}}}}]`
  upstream.answer(
    raw(
      200,
      {},
      `{"seed":${number},"choices":[{"index":0,"message":{"content":null,"tool_calls":${calls}},"finish_reason":"tool_calls"}]}`,
    ),
  )
  const text = await (await post()).text()
  expect(text).toContain(`"seed":${number}`)
  expect(text).toContain(String.raw`"arguments":"{\"id\":${number}}"`)
  upstream.answer(
    events(
      begun,
      hi,
      `{"seed":${number},"usage":{"prompt_tokens":1,"completion_tokens":1},"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
    ),
  )
  expect(await (await post({ stream: true })).text()).toContain(`"seed":${number}`)
})

test.each([
  ['1.5', '2'],
  ['0.2', '1'],
  ['Sunday, 06-Nov-94 08:49:37 GMT', '0'],
  ['Sun Nov  6 08:49:37 1994', '0'],
  ['1994-11-06T08:49:37Z', '0'],
])('Retry-After: %s is read', async (sent, seconds) => {
  upstream.answer(json({ error: { message: 'Slow.' } }, 429, { 'retry-after': sent }))
  expect((await post()).headers.get('retry-after')).toBe(seconds)
})

test('a stream in answer to a whole request has its usage, model and id', async () => {
  upstream.answer(
    events(
      begun,
      hi,
      over,
      JSON.stringify({
        id: '',
        model: '',
        choices: [],
        usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
      }),
    ),
  )
  expect(await readCompletion(await post())).toMatchObject({
    ...{ id: 'chatcmpl-upstream', object: 'chat.completion', model: 'upstream-model-2026' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  })
})

test.each(['character/', 'character/ ', 'character/\t', 'gpt-test/character/ '])(
  'the model id %j is a 404',
  async (model) => {
    for (const stream of [false, true]) expect((await post({ model, stream })).status).toBe(404)
    expect(upstream.calls).toEqual([])
  },
)
