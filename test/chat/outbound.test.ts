import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { compileCache } from '../support/command.ts'
import { sendRaw } from '../support/http.ts'
import { spawnService } from '../support/process.ts'
import { onceAsked, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  type ScriptedUpstream,
  startUpstream,
  upstreamForThisTest,
} from '../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]

describe('nothing but the configured hosts is dialled', () => {
  let upstream: ScriptedUpstream
  let service: TestService
  /** A host that must never be dialled. */
  const trap = createServer((_request, response) => response.end('{}'))
  let trapped = 0
  let trapUrl = ''

  beforeAll(async () => {
    upstream = await startUpstream()
    const open = { adapter: 'openai', baseUrl: upstream.url, retries: 0, privateUrls: true }
    service = await startTestService({}, { ...onceAsked(upstream.url), open })
    trap.on('connection', () => trapped++)
    await new Promise<void>((resolve) => trap.listen(0, '127.0.0.1', resolve))
    const { port } = trap.address() as AddressInfo
    trapUrl = `http://127.0.0.1:${port}`
  })

  beforeEach(() => {
    upstream.calls.length = 0
    upstream.answer(json(completion('Hello there.')))
  })

  afterAll(async () => {
    await service?.close()
    await upstream?.close()
    await new Promise((resolve) => trap.close(resolve))
  })

  test.each([300, 301, 302, 303, 304, 305, 307, 308])('a redirect is not followed: %i', async (status) => {
    for (const location of [`${trapUrl}/v1/chat/completions`, '//[::ffff:a9fe:a9fe]/', `${upstream.url}/elsewhere`]) {
      for (const stream of [false, true]) {
        upstream.answer((response) => void response.writeHead(status, { location }).end())
        const response = await service.request('/chat/completions', { json: { model: 'm', messages, stream } })
        expect(response.status).toBe(502)
        expect((await readChatError(response)).message).not.toContain('//')
        expect(response.headers.get('location')).toBeNull()
      }
    }
    expect(new Set(upstream.calls.map(({ path }) => path))).toEqual(new Set(['/v1/chat/completions']))
    expect(trapped).toBe(0)
  })

  test('a URL in a request goes no further than the upstream', async () => {
    const urls = [trapUrl, 'http://[::ffff:a9fe:a9fe]/latest/meta-data', 'http://169.254.169.254/']
    for (const url of urls) {
      const named = { base_url: url, baseUrl: url, api_base: url, endpoint: url, proxy: url, callback_url: url, url }
      const parts = [
        { type: 'text', text: url },
        { type: 'image_url', image_url: { url } },
        { type: 'file', file: { file_id: url } },
      ]
      const response = await service.request('/chat/completions', {
        json: {
          model: 'open',
          messages: [{ role: 'user', content: parts }],
          character: url,
          metadata: { url },
          ...named,
        },
        headers: { 'x-base-url': url, 'x-forwarded-host': trapUrl.slice(7), forwarded: `host=${trapUrl.slice(7)}` },
      })
      expect(response.status).toBe(200)
    }
    expect(upstream.calls.map(({ path, headers }) => [path, headers.host])).toEqual(
      urls.map(() => ['/v1/chat/completions', new URL(upstream.url).host]),
    )
    expect(trapped).toBe(0)
  })

  test('a URL in the model id, the target or the Host header goes no further than the upstream', async () => {
    for (const model of [trapUrl, `../../${trapUrl}`, `m@${trapUrl.slice(7)}`, `${trapUrl}/v1/chat/completions#`]) {
      expect((await service.request('/chat/completions', { json: { model, messages } })).status).toBe(200)
    }
    const body = JSON.stringify({ model: 'm', messages })
    const head = `host: ${trapUrl.slice(7)}\r\nauthorization: ${service.key}\r\ncontent-type: application/json\r\nconnection: close\r\n`
    const request = (target: string) =>
      sendRaw(service.url, `POST ${target} HTTP/1.1\r\n${head}content-length: ${body.length}\r\n\r\n${body}`)
    expect((await request('/chat/completions')).status).toBe(200)
    await request(`${trapUrl}/chat/completions`)
    expect(new Set(upstream.calls.map(({ path }) => path))).toEqual(new Set(['/v1/chat/completions']))
    expect(trapped).toBe(0)
  })
})

describe('an upstream that quotes keys', () => {
  const keys = { CANARY_KEY: 'sk-canary-0123456789abcdefghijklmnop', CANARY_PLAIN: 'plaincanary42' }
  const inUrl = 'urlcanary77'
  const host = '10.1.2.3'
  const started = `data: ${chunkText({ content: 'One' })}\n\n`

  /** A script whose answer quotes the key of the call. @param make makes the script from a sentence with this key */
  const quoting =
    (make: (quote: string) => Script): Script =>
    (response, call) => {
      const key = String(call.headers.authorization).slice('Bearer '.length)
      const url = `https://user:${inUrl}@${host}/v1?key=${inUrl}`
      return make(`Wrong key ${key}, see ${url} or key=${inUrl}, Bearer ${key}`)(response, call)
    }
  const said = (status: number) =>
    quoting((quote) => json({ error: { message: quote, type: quote, code: quote, param: quote } }, status))
  const page = (status: number, headers: (quote: string) => Record<string, string> = () => ({})) =>
    quoting((quote) => (response) => void response.writeHead(status, headers(quote)).end(`<html>${quote}</html>`))
  const scripts: readonly Script[] = [
    ...[200, 400, 401, 403, 404, 413, 422, 429, 500, 503].map(said),
    ...[200, 400, 429, 502].map((status) => page(status)),
    page(500, (quote) => ({ 'x-key': quote, location: `/?${quote}`, 'retry-after': quote })),
    quoting((quote) => (response) => void response.socket?.end(`${quote}\r\n`)),
    quoting((quote) => pieces([`data: {"error":${JSON.stringify(quote)}}\n\n`])),
    quoting((quote) => pieces([started, `data: {"error":{"message":${JSON.stringify(quote)}}}\n\n`])),
    quoting((quote) => pieces([started, `data: ${quote}\n\n`])),
    quoting((quote) => pieces([started, `data: {"x":"${quote}`], 'cut')),
  ]

  test('no secret is in a reply or in a log of any level', async () => {
    const upstream = await upstreamForThisTest()
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const model = (name: string) => ({
      adapter: 'openai',
      apiKey: `$\{${name}}`,
      baseUrl: `${upstream.url}?key=${inUrl}`,
      retries: 0,
      breaker: { failures: 0 },
    })
    const models = {
      keyed: model('CANARY_KEY'),
      plain: model('CANARY_PLAIN'),
      again: { ...model('CANARY_KEY'), retries: 1 },
      list: { fallback: ['keyed', 'plain'] },
    }
    writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
    const service = await spawnService(process.execPath, ['src/main.ts'], {
      environment: {
        ...compileCache,
        ...keys,
        DATA_DIR: folder.path,
        LOG_LEVEL: 'trace',
        BOOTSTRAP_KEY: 'a-key-of-the-caller-0123456789',
      },
    })
    const everything: string[] = []
    const ask = async (model: string, stream: boolean) => {
      const response = await fetch(`${service.url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: service.key, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages, stream }),
      })
      everything.push(`${JSON.stringify([...response.headers])}${await response.text()}`)
    }
    for (const [index, script] of scripts.entries()) {
      upstream.answer(script)
      for (const name of index === 0 ? Object.keys(models) : ['keyed', 'plain']) {
        for (const stream of [false, true]) await ask(name, stream)
      }
    }
    service.process.kill('SIGTERM')
    expect(await service.exited).toBe(0)
    expect(service.stdout().match(/"msg":"request"/g)).toHaveLength(everything.length)
    everything.push(...service.stdout().split('\n'), service.stderr())
    const secrets = [...Object.values(keys), inUrl, host, upstream.url]
    const leaks = everything.filter((text) => secrets.some((canary) => text.includes(canary)))
    expect(leaks).toEqual([])
  })
})
