import { expect, test } from 'vitest'
import { readChatError, readStream, textOfStream } from '../support/chat.ts'
import { chunkText, completion, json, pieces, type Script, sse } from '../support/upstream.ts'
import { meanwhile, post, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

const megabyte = 1024 ** 2
const many = Array.from({ length: 120_000 }, () => ({}))
const finish = chunkText({}, 'stop')
/** An event that must be parsed, with additional choices. */
const event = (choices: readonly object[]) => {
  const own = { index: 0, delta: { content: 'Hi' }, logprobs: null, finish_reason: null }
  return sse(
    JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [own, ...choices] }),
  )
}

test.each<[string, boolean, Script]>([
  ['a completion of 17 MB', false, json(completion('a'.repeat(17 * megabyte)))],
  ['a completion with 120,000 values', false, json(completion('Hi', { many }))],
  ['a first event with 120,000 values', true, pieces([event(many)])],
  ['a first event of 17 MB', true, pieces(['data: ', 'a'.repeat(17 * megabyte)])],
])('%s is a 502 with the reason', async (_what, stream, script) => {
  upstream.answer(script)
  const response = await post({ stream })
  expect(response.status).toBe(502)
  expect(await readChatError(response)).toMatchObject({
    code: 'upstream_error',
    message: expect.stringMatching(/more at once/),
  })
})

test.each([
  ['lines that end with LF', '\n'],
  ['lines that end with CRLF', '\r\n'],
])('the events before an event that is too large are passed on: %s', async (_what, lineEnd) => {
  const events = event([]) + event(many)
  upstream.answer(pieces([events.replaceAll('\n', lineEnd)]))
  const streamed = await readStream(await post({ stream: true, n: 2 }))
  expect(textOfStream(streamed)).toBe('Hi')
  expect(streamed.errors).toMatchObject([{ error: { code: 'upstream_error' } }])
  expect(streamed.isDone).toBe(false)
})

test('log probabilities do not count towards the maximum number of values, and pass unchanged', async () => {
  const top = Array.from({ length: 20 }, () => ({ token: 'a', logprob: -0.5, bytes: [97] }))
  const content = Array.from({ length: 3000 }, () => ({ token: 'a', logprob: -0.5, bytes: [97], top_logprobs: top }))
  const whole = completion('Hi')
  const [choice] = [{ index: 0, message: { role: 'assistant', content: 'Hi', refusal: null }, finish_reason: 'stop' }]
  const text = JSON.stringify({ ...whole, choices: [{ ...choice, logprobs: { content } }] })
  upstream.answer((response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(text))
  const response = await post({})
  expect(response.status).toBe(200)
  expect(await response.text()).toBe(text)
})

test('an event with a picture in it passes', async () => {
  const url = `data:image/png;base64,${'A'.repeat(3 * megabyte)}`
  const picture = chunkText({ role: 'assistant', content: 'See', images: [{ type: 'image_url', image_url: { url } }] })
  upstream.answer(pieces([sse(picture, finish, '[DONE]')]))
  const streamed = await readStream(await post({ stream: true, stream_options: { include_usage: true } }))
  expect(streamed.errors).toEqual([])
  expect(streamed.data[0]).toBe(picture)
})

test('an answer that exceeds the bytes in flight is a 503, and the next request is served', async () => {
  const tooMany = 24
  let wereAsked = 0
  const held: (() => void)[] = []
  upstream.answer((response) => {
    response.on('error', () => {})
    response.writeHead(200, { 'content-type': 'application/json' }).write('"'.padEnd(8 * megabyte, 'a'))
    held.push(() => void response.end('"'))
    if (++wereAsked === tooMany) for (const end of held) end()
  })
  const answers = await Promise.all(
    Array.from({ length: tooMany }, async () => {
      const response = await post({})
      return [response.status, (await readChatError(response)).code].join(' ')
    }),
  )
  expect(new Set(answers)).toEqual(new Set(['502 upstream_error', '503 overloaded']))
  await meanwhile()
  expect((await service.request('/readyz')).status).toBe(200)
  upstream.answer(json(completion('Hi.')))
  expect((await post({})).status).toBe(200)
})
