import { setTimeout as wait } from 'node:timers/promises'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Guard } from '../../src/access/guard.ts'
import { createServer, registerService } from '../../src/app.ts'
import { CharacterLibrary } from '../../src/characters/library/library.ts'
import { readConfig } from '../../src/config.ts'
import { BytesInFlight } from '../../src/http/bytes-in-flight.ts'
import { Metrics } from '../../src/metrics/metrics.ts'
import { defaultModels } from '../../src/models/configuration/configuration.ts'
import { ModelRegistry } from '../../src/models/registry.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { Metering } from '../../src/usage/metered-request.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { Works } from '../../src/work/work.ts'
import { parseStream, readChatError, readStream, textOfStream } from '../support/chat.ts'
import { chunkText, completion, json, pieces, type Script, sse, streamOf } from '../support/upstream.ts'
import {
  eachOffset,
  meanwhile,
  post,
  secret,
  service,
  upstream,
  upstreamServiceForThisFile,
} from '../support/upstream-service.ts'

upstreamServiceForThisFile()

describe('the reply', () => {
  const odd = `{ "id" : "x", "object":"chat.completion","created":1.0e9, "model":"other-model-2026",\r
    "choices":[{"index":0,"message":{"role":"assistant","content":"H\\u00e9 \\ud83c\\udf35 é 🌵","reasoning":"r"},
    "finish_reason":"stop"}], "big":12345678901234567890, "usage":{"prompt_tokens":1}, "extra":null }\n`

  test('is what the upstream sent, byte for byte', async () => {
    upstream.answer((response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'x-up': '1' }).end(odd)
    })
    const response = await post()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('x-up')).toBeNull()
    const text = await response.text()
    expect(text).toBe(odd)
    expect(JSON.parse(text).model).toBe('other-model-2026')
  })

  test('is what the upstream sent, byte for byte, when chunks split characters', async () => {
    const bytes = Buffer.from(odd)
    upstream.answer(async (response) => {
      response.writeHead(200)
      for (const byte of bytes) response.write(Buffer.of(byte))
      response.end()
    })
    expect(await (await post()).text()).toBe(odd)
  })

  test('streams the events as the upstream sent them', async () => {
    const events = [
      '{ "id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"}}],"big":12345678901234567890}',
      '{"model":"other-model-2026","choices":[{"index":0,"delta":{"content":"\\u00e9 é 🌵","reasoning_content":"r"}}], "x":1.0 }',
      '{"choices":[{"index":0,"finish_reason":"stop"}]}',
    ]
    upstream.answer(pieces([sse(...events, '[DONE]')]))
    const streamed = await readStream(await post({ stream: true }))
    expect(streamed.data).toEqual([...events, '[DONE]'])
  })

  test('streams an event of several lines as one event', async () => {
    const event = '{"choices":[\n{"index":0,"delta":{"role":"assistant","content":"a"},\n"finish_reason":"stop"}]}'
    upstream.answer(pieces([`data: ${event.replaceAll('\n', '\ndata: ')}\n\ndata: [DONE]\n\n`]))
    const streamed = await readStream(await post({ stream: true }))
    expect(streamed.data).toEqual([event, '[DONE]'])
  })

  test('streams the first events before the rest has come', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    upstream.answer(async (response) => {
      response.write(sse(chunkText({ content: 'early' })))
      await promise
      response.end(sse(chunkText({ content: ' late' }, 'stop'), '[DONE]'))
    })
    const response = await post({ stream: true })
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    const early = (await reader?.read())?.value ?? ''
    expect(early).toContain('early')
    resolve()
    let rest = ''
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) rest += step.value
    expect(textOfStream(parseStream(early + rest))).toBe('early late')
  })

  test('reuses a connection after a stream has ended', async () => {
    const ports = new Set<number | undefined>()
    let end = () => {}
    upstream.answer((response) => {
      ports.add(response.socket?.remotePort)
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(streamOf('one two').join(''))
      end = () => void response.end()
    })
    for (let round = 0; round < 5; round++) {
      expect((await readStream(await post({ stream: true }))).isDone).toBe(true)
      end()
      await meanwhile()
    }
    expect(ports.size).toBe(1)
  })

  const usageChunk = JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } })

  test('has the usage chunk of the upstream only if it was requested', async () => {
    upstream.answer(pieces([sse(chunkText({ content: 'a' }), chunkText({}, 'stop'), usageChunk, '[DONE]')]))
    const asked = await readStream(await post({ stream: true, stream_options: { include_usage: true } }))
    expect(asked.chunks.filter(({ usage }) => usage)).toHaveLength(1)
    expect(asked.data.at(-1)).toBe('[DONE]')
    // Missing fields of this chunk come from the chunks before it.
    const { id, object, created, model } = JSON.parse(chunkText({}))
    expect(asked.chunks.at(-1)).toEqual({ ...JSON.parse(usageChunk), id, object, created, model })
    const unasked = await readStream(await post({ stream: true }))
    expect(unasked.chunks.filter(({ usage }) => usage)).toEqual([])
    expect(unasked.data).toHaveLength(3)
  })
})

describe('a refusal whose body cannot be read', () => {
  test('follows its status when the body is cut', async () => {
    upstream.answer(async (response) => {
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '30', 'content-length': '100' })
      response.write('{"error": {')
      await meanwhile()
      response.socket?.resetAndDestroy()
    })
    const response = await post()
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '30'])
    expect((await readChatError(response)).code).toBe('rate_limit_exceeded')
  })

  test('follows its status when the body does not end', async () => {
    upstream.answer((response) => void response.writeHead(500, { 'content-type': 'text/html' }).write('<p>'))
    const response = await post()
    expect([response.status, (await readChatError(response)).code]).toEqual([502, 'upstream_error'])
  })
})

describe('an unknown finish reason of an upstream', () => {
  const odd = [{ type: 'stop' }, 1, true, 'eos', 'a\0b', '\ud800', 'the user said: my secret is 42']

  test.each(odd)('passes unchanged in a whole reply, and is recorded as stop: %j', async (reason) => {
    const choice = { index: 0, message: { role: 'assistant', content: '', refusal: null }, finish_reason: reason }
    const sent = completion('', { choices: [choice], usage: undefined })
    upstream.answer(json(sent))
    const response = await post()
    expect([response.status, await response.text()]).toEqual([200, JSON.stringify(sent)])
    await expectRecorded(response)
  })

  test.each(odd)('passes unchanged in a stream, and is recorded as stop: %j', async (reason) => {
    const end = JSON.stringify({
      ...JSON.parse(chunkText({})),
      choices: [{ index: 0, delta: {}, finish_reason: reason }],
    })
    upstream.answer(pieces([`data: ${chunkText({ content: 'Hello' })}\n\n`, `data: ${end}\n\ndata: [DONE]\n\n`]))
    const response = await post({ stream: true })
    expect(await response.text()).toContain(`data: ${end}\n\ndata: [DONE]`)
    await expectRecorded(response)
  })

  async function expectRecorded(response: Response): Promise<void> {
    const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
    expect([record.status, await record.json()]).toEqual([200, expect.objectContaining({ state: 'stop' })])
  }
})

describe('events split across packets', () => {
  const text = 'Ü 🌵!'
  // The events are short, because the test sends a request for each byte of the stream.
  const events = [
    `{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":${JSON.stringify(text)}}}]}`,
    '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  ]
  const lines = [...events, '[DONE]'].map((event) => `data: ${event}`)
  const forms: readonly (readonly [string, string])[] = [
    ['LF', `${lines.join('\n\n')}\n\n`],
    ['CRLF', `${lines.join('\r\n\r\n')}\r\n\r\n`],
    ['CR', `${lines.join('\r\r')}\r\r`],
    ['LF and no blank after the colon', `${lines.join('\n\n').replaceAll('data: ', 'data:')}\n\n`],
    ['comments, ids and types between', `:c\n\nid: 1\nevent: message\nretry: 5\n${lines.join('\n\n: ping\n\n')}\n\n`],
    ['a byte order mark', `\uFEFF${lines.join('\n\n')}\n\n`],
    ['LF, and a last event without its blank line', lines.join('\n\n')],
    ['CRLF, and a last event without its blank line', lines.join('\r\n\r\n')],
    ['LF, and no [DONE]', `${lines.slice(0, -1).join('\n\n')}\n\n`],
    ['LF, no [DONE], and a last event without its blank line', lines.slice(0, -1).join('\n\n')],
  ]
  test.each(forms)('arrive whole, wherever they were split: %s', async (_what, stream) => {
    const bytes = Buffer.from(stream)
    upstream.answer(async (response, call) => {
      const offset = Number(call.body['offset'])
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(bytes.subarray(0, offset))
      await wait(1)
      response.end(bytes.subarray(offset))
    })
    await eachOffset(bytes.length, async (offset) => {
      const response = await post({ stream: true, offset })
      expect([offset, response.status]).toEqual([offset, 200])
      const streamed = await readStream(response)
      expect([offset, ...streamed.data]).toEqual([offset, ...events, '[DONE]'])
    })
  })

  test('arrive whole when every byte comes alone', async () => {
    for (const [, stream] of forms) {
      upstream.answer(pieces(Array.from(Buffer.from(stream), (byte) => Uint8Array.of(byte))))
      expect((await readStream(await post({ stream: true }))).data).toEqual([...events, '[DONE]'])
    }
  })
})

describe('the log has the end of each completion, once, and no texts', () => {
  const events = streamOf('One two')
  const refuse = json({ error: { message: `Wrong key ${secret}` } }, 401)
  interface Ending {
    readonly what: string
    readonly script: Script
    readonly stream: boolean
    readonly status: number
    readonly state: string
  }
  const endings: readonly Ending[] = [
    { what: 'whole', script: json(completion('One')), stream: false, status: 200, state: 'stop' },
    { what: 'streamed', script: pieces(events), stream: true, status: 200, state: 'stop' },
    { what: 'refused', script: refuse, stream: false, status: 502, state: 'upstream_auth_error' },
    { what: 'refused before the first event', script: refuse, stream: true, status: 502, state: 'upstream_auth_error' },
    {
      what: 'broken off',
      script: pieces(events.slice(0, 2)),
      stream: true,
      status: 200,
      state: 'upstream_error',
    },
  ]
  test.each(endings)('$what (stream: $stream)', async ({ script, stream, status, state }) => {
    upstream.answer(script)
    const { address, key, lines, untilLogged } = await loggedService()
    const response = await fetch(`${address}/chat/completions`, {
      method: 'POST',
      headers: { authorization: key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'A-PRIVATE-TEXT' }], stream }),
    })
    await response.text()
    await untilLogged()
    const told = lines.map((line): Record<string, unknown> => JSON.parse(line)).filter(({ msg }) => msg === 'request')
    expect(told).toEqual([expect.objectContaining({ route: '/chat/completions', model: 'm', status, state })])
    expect(lines.join('')).not.toMatch(/A-PRIVATE-TEXT|One/)
    for (const forbidden of [secret, key]) expect(lines.join('')).not.toContain(forbidden)
  })

  /** A service whose log is captured. */
  async function loggedService() {
    const lines: string[] = []
    const logged = Promise.withResolvers<void>()
    const logger = pino(
      { level: 'trace' },
      {
        write(line) {
          lines.push(line)
          if (line.includes('"msg":"request"')) logged.resolve()
        },
      },
    )
    const stores = openSqliteStores(':memory:')
    const config = readConfig({})
    const models = new ModelRegistry(defaultModels({ baseUrl: upstream.url, apiKey: secret }), config)
    const app = createServer(logger, config)
    onTestFinished(async () => {
      await app.close()
      await models.close()
      await stores.close()
    })
    const limiter = stores.limiter(config.limits)
    await registerService(app, {
      config,
      stores,
      models,
      library: new CharacterLibrary({ store: stores.characters, maxCardBytes: config.cardBodyLimit }),
      metering: new Metering({
        limiter,
        ledger: stores.ledger,
        onFailure: () => {},
      }),
      guard: new Guard(stores.access),
      limiter,
      prompt: { systemPrompt: 'S' },
      inFlight: new BytesInFlight(config.maxInFlightBytes),
      metrics: new Metrics(),
      works: new Works(new WorkerPool()),
      logger,
    })
    await stores.access.createAccount('owner')
    const { secret: key } = await stores.access.createKey({ account: 'owner', scopes: ['chat'] })
    const address = await app.listen({ host: '127.0.0.1', port: 0 })
    return { address, key, lines, untilLogged: () => logged.promise }
  }
})
