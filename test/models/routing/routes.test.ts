import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readChatError, textOf } from '../../support/chat.ts'
import { serveForThisTest } from '../../support/command.ts'
import { temporaryFolder } from '../../support/service.ts'
import {
  answering,
  callCounts,
  clock,
  dropping,
  failing,
  first,
  hanging,
  limits,
  meanwhile,
  messages,
  modes,
  post,
  second,
  timed,
  twoUpstreamsForThisFile,
} from '../../support/two-upstreams.ts'
import { chunkText, json, pieces, type Script, sse, upstreamForThisTest } from '../../support/upstream.ts'

twoUpstreamsForThisFile()

describe('x-model names the model that answered', () => {
  test.each(modes)('by its name in models.json, for each id of a request (stream: %s)', async (stream) => {
    const names = { one: 'one', 'pre/any/id': 'pre%2F*', list: 'one', nested: 'one', default: 'one' }
    for (const [model, name] of Object.entries(names)) {
      const response = await post({ model, stream })
      expect([model, response.status, response.headers.get('x-model')]).toEqual([model, 200, name])
      await response.text()
    }
  })
})

describe('a list of models', () => {
  const failures: readonly (readonly [what: string, script: Script])[] = [
    ['a 500', failing(500)],
    ['a 401', failing(401)],
    ['a 402', failing(402)],
    ['a 403', failing(403)],
    ['a 404 for its id', failing(404)],
    ['an account that is empty', json({ error: { message: 'No quota.', code: 'insufficient_quota' } }, 429)],
    ['a window that is too small', json({ error: { message: 'No.', code: 'context_length_exceeded' } }, 400)],
    ['a kind of input that it lacks', json({ error: { message: 'image input is not supported' } }, 500)],
    ['a 429', failing(429, { 'retry-after': '3600' })],
    ['a page of HTML', (response) => void response.writeHead(503).end('<html>')],
    ['a dropped connection', dropping],
    ['garbage', (response) => void response.writeHead(200).end('garbage')],
    ['an error inside a 200', json({ error: { message: 'x' } })],
    ['nothing', (response) => void response.writeHead(200).end()],
  ]
  for (const stream of modes) {
    test.each(failures)(`goes on to the next model after %s (stream: ${stream})`, async (what, script) => {
      first.answer(script)
      const response = await post({ model: 'list', stream })
      expect([response.status, response.headers.get('x-model')]).toEqual([200, 'two'])
      expect(await textOf(response, stream)).toBe('From the second.')
      // A connection that an earlier test has used is replaced once.
      expect(callCounts()).toEqual([what === 'a dropped connection' && first.calls.length === 2 ? 2 : 1, 1])
      // Each model gets its own id and its own defaults.
      expect(first.calls[0]?.body).toMatchObject({ model: 'first-model' })
      expect(first.calls[0]?.body).not.toHaveProperty('temperature')
      expect(second.calls[0]?.body).toMatchObject({ model: 'second-model', temperature: 0.25 })
    })

    test(`ends with the error of the last model (stream: ${stream})`, async () => {
      first.answer(failing(500))
      second.answer(failing(429, { 'retry-after': '7' }))
      const response = await post({ model: 'list', stream })
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
      expect(await readChatError(response)).toMatchObject({ code: 'rate_limit_exceeded' })
      expect(response.headers.get('x-model')).toBeNull()
    })

    test(`skips models whose context window is too small or that lack a kind of input (stream: ${stream})`, async () => {
      const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
      const sent = [{ role: 'user', content: [{ type: 'text', text: 'What is this? '.repeat(20) }, image] }]
      const response = await post({ model: 'sighted', messages: sent, stream })
      expect([response.status, response.headers.get('x-model')]).toEqual([200, 'two'])
      await response.text()
      expect(callCounts()).toEqual([0, 1])
      // No model of the list can answer: the error says what to change.
      const refused = await post({ model: 'helpless', messages: sent, stream })
      expect([refused.status, (await readChatError(refused)).code]).toEqual([400, 'context_length_exceeded'])
      expect(callCounts()).toEqual([0, 1])
    })

    test(`gives a 4xx only if every model refuses the request (stream: ${stream})`, async () => {
      const tooLong = json({ error: { message: 'No.', code: 'context_length_exceeded' } }, 400)
      const rows = [
        [tooLong, tooLong, 400, 'context_length_exceeded'],
        [failing(404), failing(404), 404, 'upstream_refused'],
        [failing(500), tooLong, 502, 'upstream_error'],
        [tooLong, failing(500), 502, 'upstream_error'],
        [failing(401), failing(404), 502, 'upstream_auth_error'],
        [tooLong, failing(422), 422, 'upstream_refused'],
      ] as const
      for (const [one, two, status, code] of rows) {
        first.answer(one)
        second.answer(two)
        const response = await post({ model: 'list', stream })
        expect([response.status, (await readChatError(response)).code]).toEqual([status, code])
      }
    })

    test.each([400, 413, 422])(`does not go on after a fault of the caller: %i (stream: ${stream})`, async (status) => {
      first.answer(failing(status))
      const response = await post({ model: 'list', stream })
      expect(response.status).toBe(status)
      await readChatError(response)
      expect(callCounts()).toEqual([1, 0])
    })

    test(`goes on after a deadline or an error, and in a list within a list (stream: ${stream})`, async () => {
      first.answer(stream ? hanging : failing(500))
      const reply = post({ model: stream ? 'impatient' : 'list', stream }, timed)
      await first.called(1)
      clock.advance(limits.firstToken)
      const response = await reply
      expect(await textOf(response, stream)).toBe('From the second.')
      first.answer(failing(500))
      second.answer(dropping)
      const last = await post({ model: 'nested', stream })
      expect([last.status, last.headers.get('x-model')]).toEqual([200, 'understudy'])
      expect(await textOf(last, stream)).not.toBe('')
    })
  }

  test('does not go on when the client has left', async () => {
    first.answer(hanging)
    const leaving = new AbortController()
    const reply = post({ model: 'list' }, timed, leaving.signal)
    reply.catch(() => {})
    const call = await first.called(1)
    leaving.abort()
    await call.aborted
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
  })
})

describe('retries', () => {
  const soon = { 'retry-after': '0' }
  const passing: readonly (readonly [what: string, script: Script])[] = [
    ['a 500', failing(500, soon)],
    ['a 503', failing(503, soon)],
    ['a 429', failing(429, soon)],
    ['a dropped connection', dropping],
  ]
  for (const stream of modes) {
    test.each(passing)(`continue until the model answers, after %s (stream: ${stream})`, async (_what, script) => {
      first.answer(script, answering('At last.'))
      const response = await post({ model: 'retried', stream })
      expect(response.status).toBe(200)
      expect(await textOf(response, stream)).toBe('At last.')
      expect(callCounts()).toEqual([2, 0])
      expect(first.calls[1]?.body).toEqual(first.calls[0]?.body)
    })

    test(`are as many as the settings say, and end with the error (stream: ${stream})`, async () => {
      first.answer(failing(500, soon))
      expect((await post({ model: 'retried', stream })).status).toBe(502)
      expect(callCounts()).toEqual([4, 0])
      expect((await post({ model: 'twice', stream })).status).toBe(502)
      expect(callCounts()).toEqual([6, 0])
      expect((await post({ model: 'one', stream })).status).toBe(502)
      expect(callCounts()).toEqual([7, 0])
    })

    test.each([400, 401, 403, 404, 409, 413, 422])(`do not follow a %i (stream: ${stream})`, async (status) => {
      first.answer(failing(status, soon))
      expect((await post({ model: 'retried', stream })).status).toBe([401, 403].includes(status) ? 502 : status)
      expect(callCounts()).toEqual([1, 0])
    })

    test(`do not follow a long Retry-After (stream: ${stream})`, async () => {
      first.answer(failing(429, { 'retry-after': '60' }))
      const response = await post({ model: 'retried', stream })
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '60'])
      expect(callCounts()).toEqual([1, 0])
    })
  }

  test('wait as long as Retry-After says', async () => {
    first.answer(failing(429, { 'retry-after': '1' }), answering('Now.'))
    const reply = post({ model: 'retried' }, timed)
    await clock.untilWaiting(1000)
    clock.advance(999)
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
    clock.advance(1)
    expect(await textOf(await reply, false)).toBe('Now.')
  })

  test('end when the client leaves during a pause', async () => {
    first.answer(failing(429, { 'retry-after': '1' }))
    const leaving = new AbortController()
    const reply = post({ model: 'retried' }, timed, leaving.signal)
    reply.catch(() => {})
    await clock.untilWaiting(1000)
    leaving.abort()
    await clock.untilWaiting(1000, false)
    clock.advance(1000)
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
  })
})

describe('settings of a model', () => {
  test('defaults replace parameters that are absent or null', async () => {
    const sent = { model: 'defaults', stop: ['y'], temperature: null, n: 1, user: 'u', stream: false }
    expect((await post(sent)).status).toBe(200)
    expect(first.calls[0]?.body).toStrictEqual({
      ...sent,
      model: 'defaults',
      messages,
      temperature: 0.5,
      frobnicate: { a: 1 },
    })
    expect((await post({ model: 'defaults', temperature: 0, frobnicate: false, stream: false })).status).toBe(200)
    expect(first.calls[1]?.body).toMatchObject({ temperature: 0, frobnicate: false, n: 2 })
  })

  test('headers are sent with each request', async () => {
    await post({ model: 'headed' })
    expect(first.calls[0]?.headers).toMatchObject({ authorization: 'Bearer k', 'x-team': 'plants', 'api-key': 'azure' })
  })

  test('input: a kind that the model does not take is a 400 that names the part, and other kinds pass', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
    const withPart = (part: unknown) => [...messages, { role: 'user', content: [{ type: 'text', text: 'a' }, part] }]
    const rows = [
      ['texts', image, 400],
      ['texts', audio, 400],
      ['pictures', audio, 400],
      ['pictures', image, 200],
      ['one', image, 200],
      ['one', audio, 200],
    ] as const
    for (const [model, part, status] of rows) {
      for (const stream of modes) {
        const response = await post({ model, messages: withPart(part), stream })
        expect([model, part.type, response.status]).toEqual([model, part.type, status])
        if (status === 200) await response.text()
        else expect(await readChatError(response)).toMatchObject({ param: 'messages[1].content[1]' })
      }
    }
    expect(first.calls).toHaveLength(6)
  })
})

test('the log line has the requested model, the model that answered, the retries and the state', async () => {
  const upstream = await upstreamForThisTest()
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const adapter = { adapter: 'openai', baseUrl: upstream.url, breaker: { failures: 0 } }
  const models = {
    best: { fallback: ['one', 'two'] },
    one: { ...adapter, retries: 0 },
    two: { ...adapter, retries: 2 },
  }
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  const own = await serveForThisTest({ DATA_DIR: folder.path })
  const soon = { 'retry-after': '0' }
  const asked: readonly (readonly [stream: boolean, scripts: readonly Script[], line: Record<string, unknown>])[] = [
    [false, [answering('Yes.')], { model: 'best', model_used: 'one', retries: 0, state: 'stop', status: 200 }],
    [true, [answering('Yes.')], { model: 'best', model_used: 'one', retries: 0, state: 'stop', status: 200 }],
    [
      false,
      [failing(500), failing(500, soon), failing(500, soon), answering('Yes.')],
      { model: 'best', model_used: 'two', retries: 2, state: 'stop', status: 200 },
    ],
    [
      true,
      [failing(500), failing(500, soon), pieces([sse(chunkText({ content: 'One' }))])],
      { model: 'best', model_used: 'two', retries: 1, state: 'upstream_error', status: 200 },
    ],
    [true, [failing(401)], { model: 'best', state: 'upstream_auth_error', status: 502 }],
  ]
  for (const [stream, scripts] of asked) {
    upstream.answer(...scripts)
    const response = await fetch(`${own.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: own.key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'best', messages, stream }),
    })
    await response.text()
  }
  await own.close()
  const lines = own
    .stdout()
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  expect(lines.filter(({ msg }) => msg === 'request')).toEqual(asked.map(([, , line]) => expect.objectContaining(line)))
})
