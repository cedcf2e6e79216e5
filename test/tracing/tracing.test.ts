import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { completion, json, pieces, type ScriptedUpstream, startUpstream, streamOf } from '../support/upstream.ts'

interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, string>> }[]
  readonly events?: readonly { readonly name: string }[]
  readonly status: { readonly code?: number }
}

const callersTrace = '0af7651916cd43dd8448eb211c80319c'
const callersSpan = 'b7ad6b7169203331'
const secretText = 'canaryspoken'
const messages = [{ role: 'user', content: secretText }]

let upstream: ScriptedUpstream
let receiver: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream()
  receiver = await startUpstream(json({}))
  const environment = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.replace('/v1', '/'),
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=gardens, authorization=Bearer%20abc',
    OTEL_SERVICE_NAME: 'glasshouse',
  }
  service = await startTestService(environment, {
    keyed: { adapter: 'openai', baseUrl: upstream.url, apiKey: 'sk-canary-of-the-operator', retries: 1 },
    claude: { adapter: '@ai-sdk/anthropic', baseUrl: upstream.url, apiKey: 'sk-ant-canary', model: 'c', retries: 0 },
  })
})

beforeEach(() => {
  upstream.calls.length = 0
  receiver.calls.length = 0
})

afterAll(async () => {
  await service?.close()
  await receiver?.close()
  await upstream?.close()
})

function spansReceived(): readonly ReceivedSpan[] {
  const bodies = receiver.calls.map(({ body }): { resourceSpans: { scopeSpans: { spans: ReceivedSpan[] }[] }[] } =>
    JSON.parse(JSON.stringify(body)),
  )
  return bodies
    .flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans))
    .flatMap(({ spans }) => spans)
}

/** Waits for this number of spans. @returns the spans, the server's span first */
async function spans(count: number): Promise<readonly ReceivedSpan[]> {
  while (spansReceived().length < count) await receiver.called(receiver.calls.length + 1)
  expect(spansReceived()).toHaveLength(count)
  return spansReceived().toSorted((a, b) => a.kind - b.kind)
}

function attributesOf({ attributes }: ReceivedSpan): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value['stringValue'] ?? value['intValue']]))
}

async function ask(model: string, headers: Readonly<Record<string, string>> = {}, stream = false): Promise<Response> {
  const response = await service.request('/chat/completions', { json: { model, messages, stream }, headers })
  await response.text()
  return response
}

describe('a trace', () => {
  it('continues from the caller to the upstream, with a span for the request and one for each attempt', async () => {
    upstream.answer(json({}, 500), json(completion('Hello.')))
    const traceparent = `00-${callersTrace}-${callersSpan}-01`
    const response = await ask('keyed', { traceparent, tracestate: 'vendor=1' })
    const [server, first, second] = await spans(3)
    if (!server || !first || !second) throw new Error('a span is missing')
    expect(server).toMatchObject({
      traceId: callersTrace,
      parentSpanId: callersSpan,
      traceState: 'vendor=1',
      name: 'POST /chat/completions',
      kind: 2,
      status: {},
    })
    expect(attributesOf(server)).toStrictEqual({
      'http.request.method': 'POST',
      'http.route': '/chat/completions',
      'http.response.status_code': '200',
      'url.scheme': 'http',
      'conservatory.request.id': response.headers.get('x-request-id'),
    })
    for (const each of [first, second]) {
      expect(each).toMatchObject({ traceId: callersTrace, parentSpanId: server.spanId, name: 'chat keyed', kind: 3 })
      expect(BigInt(each.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(server.startTimeUnixNano))
      expect(BigInt(each.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(each.startTimeUnixNano))
    }
    expect(first.status).toEqual({ code: 2 })
    expect(attributesOf(first)).toStrictEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'keyed',
      'error.type': 'upstream_error',
    })
    expect(attributesOf(second)['http.request.resend_count']).toBe('1')
    const sent = upstream.calls.map(({ headers }) => [headers['traceparent'], headers['tracestate']])
    expect(sent).toEqual([first, second].map(({ spanId }) => [`00-${callersTrace}-${spanId}-01`, 'vendor=1']))
  })

  it('begins at the service if the caller sends no valid trace, and records the time of the first token', async () => {
    upstream.answer(pieces(streamOf('Hello there.')))
    await ask('keyed', { traceparent: `00-${'0'.repeat(32)}-${callersSpan}-01` }, true)
    const [server, client] = await spans(2)
    expect(server?.traceId).toMatch(/^[0-9a-f]{32}$/)
    expect(server?.traceId).not.toMatch(/^0+$/)
    expect(server).not.toHaveProperty('parentSpanId')
    expect(client?.events?.map(({ name }) => name)).toEqual(['first_token'])
    expect(upstream.calls[0]?.headers['traceparent']).toBe(`00-${server?.traceId}-${client?.spanId}-01`)
  })

  it('continues through an AI SDK provider too', async () => {
    upstream.answer(json({ error: { message: 'no' } }, 500))
    await ask('claude')
    const [server, client] = await spans(2)
    expect(server?.status).toEqual({ code: 2 })
    expect(server && attributesOf(server)['error.type']).toBe('upstream_error')
    expect(upstream.calls[0]?.headers['traceparent']).toBe(`00-${server?.traceId}-${client?.spanId}-01`)
  })

  it('has no text, no key and no path, and is sent to the receiver of the settings', async () => {
    upstream.answer(json({ error: { message: secretText } }, 400))
    await ask('keyed')
    await (await service.request(`/${secretText}?q=${secretText}`)).text()
    await spans(3)
    const received = JSON.stringify(receiver.calls.map(({ body }) => body))
    for (const secret of [secretText, service.key, 'sk-canary', 'Bearer']) expect(received).not.toContain(secret)
    expect(received).toContain('{"key":"service.name","value":{"stringValue":"glasshouse"}}')
    expect(receiver.calls[0]?.path).toBe('/v1/traces')
    expect(receiver.calls[0]?.headers).toMatchObject({ 'x-tenant': 'gardens', authorization: 'Bearer abc' })
  })

  it('is not recorded if the caller’s trace is not sampled, and the upstream gets the same flag', async () => {
    upstream.answer(json(completion('Hello.')))
    const traceparent = `00-${callersTrace}-${callersSpan}-00`
    await ask('keyed', { traceparent })
    await ask('keyed')
    // Only the second request has spans.
    const [server] = await spans(2)
    expect(server?.traceId).not.toBe(callersTrace)
    expect(upstream.calls[0]?.headers['traceparent']).toBe(traceparent)
  })

  it('does not begin without a receiver in the settings, and a receiver that is away delays no request', async () => {
    upstream.answer(json(completion('Hello.')))
    const models = { keyed: { adapter: 'openai', baseUrl: upstream.url } }
    const untraced = await serviceForThisTest({}, models)
    const away = await serviceForThisTest({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }, models)
    for (const each of [untraced, away]) {
      const headers = { traceparent: `00-${callersTrace}-${callersSpan}-01` }
      const response = await each.request('/chat/completions', { json: { model: 'keyed', messages }, headers })
      expect(response.status).toBe(200)
      await response.text()
    }
    expect(upstream.calls[0]?.headers).not.toHaveProperty('traceparent')
    expect(upstream.calls[1]?.headers['traceparent']).toMatch(new RegExp(`^00-${callersTrace}-[0-9a-f]{16}-01$`))
  })
})
