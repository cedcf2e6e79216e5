import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { completion, json, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let upstream: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream(json(completion('Hello there.')))
  const openAi = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
  service = await startTestService({}, { gpt: openAi, best: { fallback: ['gpt'] } })
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

describe('a chat request', () => {
  test('is found by the x-request-id of its reply as soon as the reply ends, and counts in the usage', async () => {
    const messages = [{ role: 'user', content: 'Hello' }]
    const before = Math.floor(Date.now() / 1000)
    const reply = await service.request('/chat/completions', { json: { model: 'best', character: 'Fern', messages } })
    expect(reply.status).toBe(200)
    await reply.text()
    const id = reply.headers.get('x-request-id')
    const found: Record<string, unknown> = JSON.parse(await (await service.request(`/requests/${id}`)).text())
    expect(found).toEqual({
      object: 'request',
      id,
      created: expect.any(Number),
      key: service.key.slice(0, 11),
      model: 'best',
      model_used: 'gpt',
      character: reply.headers.get('x-character'),
      prompt_tokens: 11,
      completion_tokens: 7,
      tokens_exact: true,
      first_token_ms: null,
      total_ms: expect.any(Number),
      retries: 0,
      state: 'stop',
      // The upstream reports 11 tokens for the whole prompt, which has Fern's card.
      upstream_truncated: expect.stringMatching(/^11\/\d{4}$/),
    })
    expect(found['created']).toBeGreaterThanOrEqual(before)
    const usage: Record<string, unknown> = JSON.parse(await (await service.request('/usage?by=key')).text())
    const line = { key: service.key.slice(0, 11), requests: 1, prompt_tokens: 11, completion_tokens: 7, failed: 0 }
    expect(usage['data']).toEqual([line])
  })

  test('whose model failed counts as a failure', async () => {
    upstream.answer(json({ error: { message: 'no' } }, 500))
    const messages = [{ role: 'user', content: 'Hello' }]
    const reply = await service.request('/chat/completions', { json: { model: 'gpt', messages } })
    expect(reply.status).toBe(502)
    const found: Record<string, unknown> = JSON.parse(
      await (await service.request(`/requests/${reply.headers.get('x-request-id')}`)).text(),
    )
    expect(found).toMatchObject({ model: 'gpt', state: 'upstream_error', completion_tokens: 0 })
    const usage = JSON.parse(await (await service.request('/usage?by=model')).text())
    expect(usage.data).toContainEqual(expect.objectContaining({ model: 'gpt', requests: 1, failed: 1 }))
  })
})
