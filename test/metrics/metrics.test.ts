import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readStream } from '../support/chat.ts'
import { until } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { namesOf, parseMetrics, type Scraped, sumOf } from '../support/metrics.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { isOverPostgres } from '../support/test-database.ts'
import { completion, json, pieces, type ScriptedUpstream, startUpstream, streamOf } from '../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]

let upstream: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream()
  service = await startTestService({ METRICS_PORT: '0' }, modelsBehind(upstream.url))
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

/** A model with a breaker that opens at the first failure, and models without a breaker. */
function modelsBehind(baseUrl: string): Readonly<Record<string, unknown>> {
  const openAi = { adapter: 'openai', baseUrl, retries: 0 }
  return {
    understudy: { adapter: 'understudy' },
    fragile: { ...openAi, breaker: { failures: 1, pause: 60_000 } },
    'tough/*': { ...openAi, breaker: { failures: 0 } },
    '*': { ...openAi, breaker: { failures: 0 } },
  }
}

async function scrape(): Promise<Scraped> {
  const response = await fetch(`${service.metricsUrl}/metrics`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  return parseMetrics(await response.text())
}

/** Scrapes before and after `during`. @returns a function that reads the difference of a metric */
async function added(during: () => Promise<unknown>): Promise<(name: string, ...pieces: string[]) => number> {
  const before = await scrape()
  await during()
  // The service counts a request a moment after its client has read the end.
  let after = before
  await until(async () => {
    after = await scrape()
    return sumOf(after, 'http_server_active_requests') === 0
  })
  return (name, ...labels) => sumOf(after, name, ...labels) - sumOf(before, name, ...labels)
}

function ask(model: string, more: Readonly<Record<string, unknown>> = {}): Promise<Response> {
  return service.request('/chat/completions', { json: { model, messages, ...more } })
}

describe('the metrics', () => {
  it('count requests by method, route and status, and the writes of a commit', async () => {
    const counted = await added(async () => {
      for (const name of ['Fern', 'Moss']) await (await service.request('/plants', { json: { name } })).text()
      await (await service.request('/plants/1')).text()
      await (await service.request('/plants/999')).text()
    })
    const requests = 'http_server_request_duration_seconds_count'
    expect(counted(requests, 'method="POST"', 'http_route="/plants"', 'status_code="200"')).toBe(2)
    expect(counted(requests, 'method="GET"', 'http_route="/plants/:id"', 'status_code="200"')).toBe(1)
    expect(counted(requests, 'http_route="/plants/:id"', 'status_code="404"')).toBe(1)
    expect(counted('http_server_request_duration_seconds_bucket', 'http_route="/plants/:id"', 'le="+Inf"')).toBe(2)
    expect(counted('http_server_request_duration_seconds_sum', 'http_route="/plants"')).toBeGreaterThan(0)
    expect(counted('conservatory_commit_batch_size_sum')).toBe(2)
  })

  it('count the hits of the page cache', async () => {
    const counted = await added(async () => {
      for (let time = 0; time < 3; time++) await (await service.request('/plants?limit=7')).text()
    })
    // Over PostgreSQL no page is cached, since another replica may have written.
    const [misses, hits] = isOverPostgres ? [0, 0] : [1, 2]
    expect(counted('conservatory_page_cache_requests_total', 'result="miss"')).toBe(misses)
    expect(counted('conservatory_page_cache_requests_total', 'result="hit"')).toBe(hits)
  })

  it('count attempts at models, their time to the first token, their tokens and their failures', async () => {
    upstream.answer(json(completion('Hello.')), pieces(streamOf('Hello there.')), json({}, 500))
    const counted = await added(async () => {
      expect((await ask('tough/one')).status).toBe(200)
      await readStream(await ask('tough/two', { stream: true }))
      const failed = await ask('tough/three')
      expect(failed.status).toBe(502)
      await failed.text()
    })
    const model = 'gen_ai_request_model="tough/*"'
    expect(counted('gen_ai_client_operation_duration_seconds_count', model)).toBe(3)
    expect(counted('gen_ai_client_operation_duration_seconds_count', model, 'error_type="upstream_error"')).toBe(1)
    expect(counted('gen_ai_server_time_to_first_token_seconds_count', model)).toBe(1)
    expect(counted('gen_ai_client_token_usage_count', model, 'token_type="output"')).toBe(2)
    expect(counted('gen_ai_client_token_usage_sum', model, 'token_type="input"')).toBeGreaterThanOrEqual(11)
    const requests = 'http_server_request_duration_seconds_count'
    expect(counted(requests, 'http_route="/chat/completions"', 'error_type="upstream_error"')).toBe(1)
  })

  it('report the states of breakers', async () => {
    upstream.answer(json({}, 500))
    const state = 'conservatory_breaker_state'
    const closed = await scrape()
    expect(sumOf(closed, state, 'model="fragile"', 'state="closed"')).toBe(1)
    await (await ask('fragile')).text()
    const opened = await scrape()
    expect(sumOf(opened, state, 'model="fragile"', 'state="open"')).toBe(1)
    expect(sumOf(opened, state, 'model="fragile"', 'state="closed"')).toBe(0)
    expect([...opened.keys()].filter((sample) => sample.startsWith(state) && sample.includes('understudy'))).toEqual([])
  })

  it('report requests in flight, the process and the event loop', async () => {
    upstream.answer(pieces(streamOf('Hello there.').slice(0, 2), 'hang'))
    const leaving = new AbortController()
    const response = await service.request('/chat/completions', {
      json: { model: 'hanging', messages, stream: true },
      signal: leaving.signal,
    })
    const during = await scrape()
    expect(sumOf(during, 'conservatory_chats_in_progress')).toBe(1)
    expect(sumOf(during, 'http_server_active_requests', 'method="POST"')).toBe(1)
    const counted = await added(async () => {
      leaving.abort()
      await response.text().catch(() => {})
    })
    expect(counted('conservatory_chats_in_progress')).toBe(-1)
    const requests = 'http_server_request_duration_seconds_count'
    expect(counted(requests, 'http_route="/chat/completions"', 'status_code="499"')).toBe(1)
    expect(counted('gen_ai_client_operation_duration_seconds_count', 'error_type="client_gone"')).toBe(1)
    expect(counted('process_cpu_seconds_total')).toBeGreaterThan(0)
    // On a busy machine there may be no idle time between two scrapes.
    expect(sumOf(during, 'nodejs_eventloop_time_seconds_total', 'state="idle"')).toBeGreaterThan(0)
    expect(counted('nodejs_eventloop_time_seconds_total')).toBeGreaterThan(0)
    expect(sumOf(during, 'process_resident_memory_bytes')).toBeGreaterThan(10_000_000)
  })

  it('have no more series after 1,000 random paths, models and methods', async () => {
    upstream.answer(json(completion('Hello.')), json({ error: { code: 'word_of_the_upstream', message: 'No.' } }, 400))
    const random = () => Math.random().toString(36).slice(2)
    const send = async (turn: number) => {
      const path = [`/${random()}`, `/plants/${turn}/${random()}`, `/models/${random()}`, `/v1/${random()}?q=${turn}`]
      const response =
        turn % 5 === 4
          ? await ask(turn % 2 ? random() : `tough/${random()}`)
          : await service.request(path[turn % 5] ?? '/', { method: turn % 3 ? 'GET' : 'DELETE' })
      await response.text()
    }
    const sendAll = async (from: number, to: number) => {
      for (let turn = from; turn < to; turn += 20) {
        await Promise.all(Array.from({ length: 20 }, (_none, index) => send(turn + index)))
      }
    }
    await sendAll(0, 100)
    await added(() => sendAll(100, 160))
    const before = await scrape()
    const counted = await added(() => sendAll(160, 1160))
    const after = await scrape()
    expect([...after.keys()].filter((sample) => !before.has(sample))).toEqual([])
    expect(counted('http_server_request_duration_seconds_count')).toBe(1000)
    expect(counted('gen_ai_client_operation_duration_seconds_count', 'error_type="refused"')).toBeGreaterThan(100)
    expect([...after.keys()].join('\n')).not.toContain('word_of_the_upstream')
  })
})

describe('/metrics', () => {
  it('is only on its own port if METRICS_PORT is set, and that port serves nothing else', async () => {
    await expectError(await service.request('/metrics'), 'chat', 404)
    for (const path of ['/', '/plants', '/metrics/more', '/livez']) {
      const response = await fetch(service.metricsUrl + path)
      expect(response.status).toBe(404)
      await response.text()
    }
    const refused = await fetch(`${service.metricsUrl}/metrics`, { method: 'POST', body: 'x' })
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  })

  it('is on the main port without METRICS_PORT, for keys with the scope admin', async () => {
    const main = await serviceForThisTest()
    expect(main.metricsUrl).toBeUndefined()
    await expectError(await main.request('/metrics', { headers: { authorization: null } }), 'chat', 401)
    const chat = await main.makeKey('guest', ['chat', 'plants:read'])
    await expectError(await main.request('/metrics', { headers: { authorization: `Bearer ${chat}` } }), 'chat', 403)
    const response = await main.request('/metrics')
    expect(response.status).toBe(200)
    expect(namesOf(parseMetrics(await response.text()))).toContain('http_server_active_requests')
  })

  it('says which setting to change when its port is taken', async () => {
    const taken = new URL(service.metricsUrl ?? '').port
    const starting = serviceForThisTest({ METRICS_PORT: taken })
    await expect(starting).rejects.toThrow(
      `METRICS_PORT ${taken} on 127.0.0.1 cannot be listened on (EADDRINUSE). Set METRICS_PORT to another port.`,
    )
  })
})
