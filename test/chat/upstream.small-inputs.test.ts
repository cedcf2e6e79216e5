import { describe, expect, test } from 'vitest'
import { readChatError, readCompletion } from '../support/chat.ts'
import { type Meaning, meaningOfChat, meaningOfResponse } from '../support/meaning.ts'
import { answered, begun, calling, events, hi, oddAnswers, over, piece, raw } from '../support/odd-answers.ts'
import { json } from '../support/upstream.ts'
import { onlyCall, post, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

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

describe.each(asks)('asked for %s, the answer means what the upstream meant', (_asked, ask) => {
  test.each(oddAnswers)('%s', async (_what, script, meaning) => {
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
