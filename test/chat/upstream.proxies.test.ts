import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readChatError, readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { conservatory } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { forwardProxyForThisTest } from '../support/forward-proxy.ts'
import { compileCache, projectFolder, spawnService } from '../support/process.ts'
import { recorded } from '../support/replay.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { completion, json, pieces, startUpstream, streamOf, upstreamForThisTest } from '../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const openAi = { adapter: 'openai', retries: 0, breaker: { failures: 0 } }
const key = 'sk-of-the-operator-1234567890'

describe('with HTTP_PROXY', () => {
  test('an upstream is reached through the proxy, whole and streamed, and an exempt upstream directly', async () => {
    const upstream = await upstreamForThisTest()
    const proxy = await forwardProxyForThisTest(upstream.url)
    const models = {
      far: { ...openAi, baseUrl: 'http://models.example:8080/v1', apiKey: key },
      straight: { ...openAi, baseUrl: 'http://models.invalid/v1', proxy: false },
      near: { ...openAi, baseUrl: upstream.url },
      excepted: { ...openAi, baseUrl: 'http://excepted.invalid/v1' },
    }
    const service = await serviceForThisTest(
      { HTTP_PROXY: proxy.url.replace('//', '//gardener:p%40ss@'), NO_PROXY: 'excepted.invalid' },
      models,
    )
    const ask = (model: string, stream = false) =>
      service.request('/chat/completions', { json: { model, messages, stream } })

    upstream.answer(json(completion('Hello there.')))
    expect((await readCompletion(await ask('far'))).choices[0]?.message.content).toBe('Hello there.')
    upstream.answer(pieces(streamOf('Hello there.')))
    expect(textOfStream(await readStream(await ask('far', true)))).toBe('Hello there.')
    const asked = { method: 'POST', target: 'http://models.example:8080/v1/chat/completions' }
    expect(proxy.asked).toMatchObject([asked, asked])
    expect(proxy.asked[0]?.headers).toMatchObject({
      host: 'models.example:8080',
      authorization: `Bearer ${key}`,
      'proxy-authorization': `Basic ${Buffer.from('gardener:p@ss').toString('base64')}`,
    })
    expect(upstream.calls.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/v1/chat/completions'])

    upstream.answer(json(completion('Hello there.')))
    expect((await ask('near')).status).toBe(200)
    expect(upstream.calls.at(-1)?.headers.host).toBe(new URL(upstream.url).host)
    for (const model of ['straight', 'excepted']) {
      expect(await readChatError(await ask(model))).toMatchObject({ code: 'upstream_unreachable' })
    }
    expect(proxy.asked).toHaveLength(2)
  })

  test('OPENAI_BASE_URL is reached through the proxy, and nothing in a request changes the host', async () => {
    const upstream = await upstreamForThisTest(json(completion('Hello there.')))
    const proxy = await forwardProxyForThisTest(upstream.url)
    const service = await serviceForThisTest({ http_proxy: proxy.url, OPENAI_BASE_URL: 'http://models.example/v1' })
    const other = 'http://other.example/'
    const response = await service.request('/chat/completions', {
      json: { model: other, messages, proxy: other, http_proxy: other, base_url: other },
      headers: {
        'x-forwarded-host': 'other.example',
        forwarded: 'host=other.example',
        'proxy-authorization': 'Basic x',
      },
    })
    expect(response.status).toBe(200)
    expect(proxy.asked.map(({ target }) => target)).toEqual(['http://models.example/v1/chat/completions'])
    expect(proxy.asked[0]?.headers).not.toHaveProperty('proxy-authorization')
  })

  test.each([403, 407, 502])('a proxy that refuses with %i is a 502 that names no host', async (status) => {
    const upstream = await upstreamForThisTest()
    const proxy = await forwardProxyForThisTest(upstream.url, status)
    const service = await serviceForThisTest(
      { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url },
      {
        plain: { ...openAi, baseUrl: 'http://models.example/v1' },
        tunnel: { ...openAi, baseUrl: 'https://models.example/v1' },
      },
    )
    for (const model of ['plain', 'tunnel']) {
      const response = await service.request('/chat/completions', { json: { model, messages } })
      expect(response.status).toBe(502)
      expect(await response.text()).not.toContain('example')
    }
    expect(proxy.asked.map(({ method, target }) => [method, target])).toEqual([
      ['POST', 'http://models.example/v1/chat/completions'],
      ['CONNECT', 'models.example:443'],
    ])
  })

  test('models check names the proxy as the cause', async () => {
    const proxy = await forwardProxyForThisTest('http://127.0.0.1:9', 407)
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const far = { ...openAi, baseUrl: 'http://models.example/v1' }
    const models = { far, tunnel: { ...far, baseUrl: 'https://models.example/v1' } }
    writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
    const withPassword = proxy.url.replace('//', '//gardener:canary@')
    const environment = { DATA_DIR: folder.path, HTTP_PROXY: withPassword, HTTPS_PROXY: withPassword }
    const { stdout, stderr } = await conservatory(['models', 'check'], environment)
    expect(stdout).toMatch(/far .* models\.example: UND_ERR_INVALID_ARG, the proxy answered 407\./)
    expect(stdout).toMatch(/tunnel .* models\.example: UND_ERR_ABORTED, the proxy answered 407\./)
    expect(stdout + stderr).not.toContain('canary')
  })

  test('an unreachable proxy is a 502', async () => {
    const gone = await startUpstream()
    await gone.close()
    const service = await serviceForThisTest(
      { HTTP_PROXY: new URL(gone.url).origin },
      { far: { ...openAi, baseUrl: 'http://models.example/v1' } },
    )
    const response = await service.request('/chat/completions', { json: { model: 'far', messages } })
    expect([response.status, (await readChatError(response)).code]).toEqual([502, 'upstream_unreachable'])
  })

  test('packages of providers and traces use the proxy', async () => {
    const { body } = recorded('anthropic/text.json')
    const upstream = await upstreamForThisTest(json(body))
    const proxy = await forwardProxyForThisTest(upstream.url)
    const claude = { adapter: '@ai-sdk/anthropic', apiKey: key, model: 'claude-sonnet-4-5', retries: 0 }
    const service = await serviceForThisTest(
      { HTTP_PROXY: proxy.url, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.example:4318' },
      {
        claude: { ...claude, baseUrl: 'http://models.example/v1' },
        straight: { ...claude, baseUrl: 'http://models.invalid/v1', proxy: false },
      },
    )
    const ask = (model: string) => service.request('/chat/completions', { json: { model, messages } })
    expect((await ask('claude')).status).toBe(200)
    expect((await ask('straight')).status).toBe(502)
    const targets = () => [...new Set(proxy.asked.map(({ target }) => target))].toSorted()
    await eventually(() =>
      expect(targets()).toEqual(['http://collector.example:4318/v1/traces', 'http://models.example/v1/messages']),
    )
  })
})

test.each([
  ['an upstream that answers', { NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 200],
  // The tests' certificate has another name.
  ['an upstream with another name in its certificate', {}, 502],
])(
  'with HTTPS_PROXY an upstream is reached through a tunnel that the proxy cannot read: %s',
  async (_what, environment, status) => {
    const fixture = (name: string) => readFileSync(join(projectFolder, 'test/fixtures/tls', name))
    const server = createServer({ key: fixture('server.key'), cert: fixture('server.pem') }, (_request, response) => {
      response.setHeader('content-type', 'application/json').end(JSON.stringify(completion('Hello there.')))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
    const { port } = server.address() as AddressInfo
    const proxy = await forwardProxyForThisTest(`http://127.0.0.1:${port}`)
    const service = await spawnService(process.execPath, ['src/main.ts'], {
      environment: {
        ...compileCache,
        ...environment,
        HTTPS_PROXY: proxy.url,
        OPENAI_BASE_URL: 'https://models.example/v1',
        OPENAI_API_KEY: key,
        BOOTSTRAP_KEY: 'a-key-of-the-caller-0123456789',
      },
    })
    const response = await fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: service.key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages }),
    })
    expect(response.status).toBe(status)
    expect([...new Set(proxy.asked.map(({ method, target }) => `${method} ${target}`))]).toEqual([
      'CONNECT models.example:443',
    ])
    expect(JSON.stringify(proxy.asked)).not.toContain(key)
  },
)
