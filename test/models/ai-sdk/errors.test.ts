import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import type { ApiError } from '../../../src/errors.ts'
import {
  asked,
  canaryKey,
  complete,
  failureFrom,
  stream,
  type Vendor,
  vendorForThisTest,
} from '../../support/ai-sdk.ts'
import { eventsOf, replay, replayStream } from '../../support/replay.ts'
import { json, pieces, type Script } from '../../support/upstream.ts'

/** All texts of an error, for callers and for the log. */
function everything(error: ApiError): string {
  return inspect(error, { depth: 10, showHidden: true }) + String(error.stack) + JSON.stringify(error)
}

describe("the providers' refusals, whole and streamed", () => {
  test.each<[string, number, string, RegExp, string | undefined]>([
    ['anthropic/error-401.json', 502, 'upstream_auth_error', /operator/, undefined],
    ['anthropic/error-400-credit.json', 502, 'upstream_auth_error', /operator/, undefined],
    ['anthropic/error-429.json', 429, 'rate_limit_exceeded', /too often/, '17'],
    ['anthropic/error-529.json', 502, 'upstream_error', /failed \(529\)/, undefined],
    ['anthropic/error-400-too-long.json', 400, 'context_length_exceeded', /208310 tokens > 200000/, undefined],
    ['anthropic/error-400.json', 400, 'upstream_refused', /max_tokens: must be greater/, undefined],
    ['google/error-400-key.json', 502, 'upstream_auth_error', /operator/, undefined],
    ['google/error-403.json', 502, 'upstream_auth_error', /operator/, undefined],
    ['google/error-429.json', 429, 'rate_limit_exceeded', /too often/, '22'],
    ['google/error-503.json', 502, 'upstream_error', /failed \(503\)/, undefined],
    ['google/error-400-too-long.json', 400, 'context_length_exceeded', /1200293.*1048576/, undefined],
  ])('%s is %d %s', async (name, status, code, message, retryAfter) => {
    const { model, upstream } = await vendorForThisTest(vendorOf(name), [replay(name)])
    const whole = await failureFrom(complete(model, asked()))
    const { chunks, error: streamed } = await stream(model, asked({ stream: true }))
    expect(chunks).toEqual([])
    for (const error of [whole, streamed]) {
      expect(error).toMatchObject({ name: 'ApiError', status, code, message: expect.stringMatching(message) })
      expect(error).toHaveProperty('headers', retryAfter === undefined ? {} : { 'retry-after': retryAfter })
    }
    if (code === 'context_length_exceeded') expect(whole.param).toBe('messages')
    // The packages could retry some of these requests themselves, but they must not.
    expect(upstream.calls).toHaveLength(2)
  })

  test('an error as the first event is a failure before anything was sent', async () => {
    const { model } = await vendorForThisTest('anthropic', [replayStream('anthropic/error-first-stream.txt')])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(chunks).toEqual([])
    expect(error).toMatchObject({ status: 502, code: 'upstream_error', message: expect.stringContaining('529') })
  })

  test('a rate limit as the first event is a 429', async () => {
    const event = { type: 'error', error: { type: 'rate_limit_error', message: `Slow down, ${canaryKey}` } }
    const script = pieces([`event: error\ndata: ${JSON.stringify(event)}\n\n`])
    const { model } = await vendorForThisTest('anthropic', [script])
    const { error } = await stream(model, asked({ stream: true }))
    expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  })

  test('google: an error object in a whole 200 is a failure', async () => {
    const { model } = await vendorForThisTest('google', [
      json({ error: { code: 500, message: 'x', status: 'INTERNAL' } }),
    ])
    expect((await failureFrom(complete(model, asked()))).status).toBe(502)
  })
})

describe('an unusable answer', () => {
  const html = '<html><body>nginx at https://internal.example/ says no</body></html>'
  const page =
    (status: number): Script =>
    (response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end(html)
    }
  test.each<[string, Script, number]>([
    ['a page in a 200', page(200), 502],
    ['a page in a 502', page(502), 502],
    ['a page in a 404', page(404), 404],
    ['a redirect', (response) => void response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), 502],
    ['an empty 200', (response) => void response.writeHead(200).end(), 502],
    ['JSON of another kind', json({ hello: 'world' }), 502],
    ['a stream without valid events', pieces(['data: {"hello":"world"}\n\n', 'data: nonsense\n\n']), 502],
  ])('is a failure whose message repeats nothing of the answer: %s', async (_case, script, status) => {
    for (const vendor of ['anthropic', 'google'] as const) {
      const { model, upstream } = await vendorForThisTest(vendor, [script])
      const whole = await failureFrom(complete(model, asked()))
      const { chunks, error } = await stream(model, asked({ stream: true }))
      expect(chunks).toEqual([])
      for (const failure of [whole, error]) {
        expect(failure).toMatchObject({ name: 'ApiError', status })
        expect(String(failure)).not.toMatch(/html|nginx|internal\.example|127\.0\.0\.1/)
      }
      // Two requests, also after a redirect, because redirects are not followed.
      expect(upstream.calls).toHaveLength(2)
    }
  })

  test('a provider that refuses connections is a 502, and the cause of the error says so', async () => {
    for (const vendor of ['anthropic', 'google'] as const) {
      const { model, upstream } = await vendorForThisTest(vendor, [])
      await upstream.close()
      const error = await failureFrom(complete(model, asked()))
      expect(error).toMatchObject({ status: 502, code: 'upstream_unreachable' })
      expect(error.cause).toMatchObject({ message: expect.stringContaining('ECONNREFUSED') })
    }
  })
})

test('a stream is read however the network splits its bytes', async () => {
  for (const vendor of ['anthropic', 'google'] as const) {
    const bytes = Buffer.from(eventsOf(`${vendor}/text-stream.txt`).join(''))
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte))
    const { model } = await vendorForThisTest(vendor, [pieces(single)])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(error).toBeUndefined()
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toContain('leaves? 🌱 Too')
  }
})

test('an error contains no secret, no address and no prompt', async () => {
  const header = 'header-canary-0987654321'
  const nested = 'nested-canary-0987654321'
  const words = `bad key ${canaryKey}, ${nested} and ${header} at https://api.example/v1?key=${canaryKey} for Why are my leaves yellow?`
  const scripts: Script[] = [400, 401, 404, 413, 422, 429, 500, 200].map((status) =>
    json({ type: 'error', error: { type: 'x', message: words, code: status, status: 'X' } }, status),
  )
  for (const vendor of ['anthropic', 'google'] as const) {
    const { model, upstream } = await vendorForThisTest(vendor, scripts, {
      headers: { 'x-secret': header },
      options: { more: { deeper: [nested] } },
    })
    for (const _script of scripts) {
      const error = await failureFrom(complete(model, asked()))
      expect(everything(error)).not.toMatch(/canary|api\.example/)
    }
    expect(upstream.calls).toHaveLength(scripts.length)
  }
})

describe('the requests to the upstream end', () => {
  const silent: Script = () => {}
  const begun: Script = replayStream('anthropic/cut-stream.txt', 'hang')

  test.each<[string, boolean, Script]>([
    ['before a whole answer', false, silent],
    ['before the first event', true, silent],
    ['after the first event', true, begun],
  ])('when the caller leaves %s', async (_case, isStreamed, script) => {
    const { model, upstream } = await vendorForThisTest('anthropic', [script])
    const controller = new AbortController()
    const answer = isStreamed
      ? stream(model, asked({ stream: true }), controller.signal).then(({ error }) => error)
      : failureFrom(complete(model, asked(), controller.signal))
    const call = await upstream.called(1)
    controller.abort()
    expect(await answer).toMatchObject({ status: 499, code: 'client_gone' })
    await call.aborted
  })

  test('when the reader of a stream stops', async () => {
    const { model, upstream } = await vendorForThisTest('anthropic', [begun])
    for await (const _group of model.stream(asked({ stream: true }), new AbortController().signal)) break
    await upstream.calls[0]?.aborted
  })

  test('when another choice of the same request fails', async () => {
    const { model, upstream } = await vendorForThisTest('anthropic', [silent])
    for (const isStreamed of [false, true]) {
      const before = upstream.calls.length
      const failing: Script = async (response, call) => {
        await upstream.called(before + 2)
        await replay('anthropic/error-529.json')(response, call)
      }
      upstream.answer(failing, silent)
      const error = isStreamed
        ? (await stream(model, asked({ n: 2, stream: true }))).error
        : await failureFrom(complete(model, asked({ n: 2 })))
      expect(error).toMatchObject({ status: 502, code: 'upstream_error' })
      await upstream.calls[before + 1]?.aborted
    }
  })

  test('at a deadline, with the error of the deadline', async () => {
    const { model } = await vendorForThisTest('google', [silent])
    const error = await failureFrom(complete(model, asked(), AbortSignal.timeout(1)))
    expect(error).toMatchObject({ status: 504, code: 'upstream_timeout' })
  })
})

function vendorOf(name: string): Vendor {
  return name.startsWith('anthropic') ? 'anthropic' : 'google'
}
