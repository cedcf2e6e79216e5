import { describe, expect, test } from 'vitest'
import type { OutputItem } from '../../src/openai/response.ts'
import { claudeFaults } from '../support/provider-faults.ts'
import { replay } from '../support/replay.ts'
import { serviceForThisTest } from '../support/service.ts'
import { pieces, type Script, sse, upstreamForThisTest } from '../support/upstream.ts'

/* Reasoning items with the signatures of a provider, which a client sends back in a loop of tools. */

const content = [
  { type: 'thinking', thinking: 'Which bed?', signature: 's1' },
  { type: 'text', text: 'I look.' },
  { type: 'tool_use', id: 't1', name: 'moisture', input: { bed: 'north' } },
  { type: 'redacted_thinking', data: 'r2' },
  { type: 'tool_use', id: 't2', name: 'moisture', input: { bed: 'south' } },
]
const tools = [{ type: 'function', name: 'moisture', parameters: { type: 'object', properties: {} } }]
const asked = { model: 'm', tools, reasoning: { effort: 'low' }, include: ['reasoning.encrypted_content'] }
const question = { role: 'user', content: 'Is a bed dry?' }
const results = ['t1', 't2'].map((call_id) => ({ type: 'function_call_output', call_id, output: 'dry' }))

/** The stream of an answer of Claude with these blocks. */
function streamOf(blocks: readonly Record<string, unknown>[]): Script {
  const events: object[] = [{ type: 'message_start', message: { id: 'm', model: 'c', usage: { input_tokens: 9 } } }]
  for (const [index, block] of blocks.entries()) {
    events.push({ type: 'content_block_start', index, content_block: block }, { type: 'content_block_stop', index })
  }
  const delta = { stop_reason: 'tool_use' }
  events.push({ type: 'message_delta', delta, usage: { output_tokens: 9 } }, { type: 'message_stop' })
  return pieces(events.map((event) => sse(JSON.stringify(event))))
}

async function serviceOver(adapter: string, ...scripts: Script[]) {
  const upstream = await upstreamForThisTest(...scripts)
  const m = { adapter, model: 'c', apiKey: 'a-key-of-tests', baseUrl: upstream.url, retries: 0 }
  return { upstream, service: await serviceForThisTest({}, { m }) }
}

const done = (text: string) =>
  text.split('\n').flatMap((line): { output: OutputItem[]; item?: OutputItem }[] => {
    if (!line.startsWith('data: ')) return []
    const event = JSON.parse(line.slice('data: '.length))
    if (event.type === 'response.completed') return [{ output: event.response.output }]
    return event.type === 'response.output_item.done' ? [{ output: [], item: event.item }] : []
  })

describe('a loop of tools with Claude, all items sent back', () => {
  test.each<[string, boolean, (text: string) => OutputItem[]]>([
    ['of a whole response', false, (text) => JSON.parse(text).output],
    ['of the end of a stream', true, (text) => done(text).flatMap(({ output }) => output)],
    ['in the order in which they ended in a stream', true, (text) => done(text).flatMap(({ item }) => item ?? [])],
  ])('%s', async (_what, isStream, itemsIn) => {
    const first = isStream ? streamOf(content) : replay('anthropic/text.json', { content, stop_reason: 'tool_use' })
    const { upstream, service } = await serviceOver('@ai-sdk/anthropic', first, replay('anthropic/text.json'))
    const response = await service.request('/responses', { json: { ...asked, input: [question], stream: isStream } })
    expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
    const items = itemsIn(await response.text())
    expect(items.find(({ type }) => type === 'reasoning')).toHaveProperty('encrypted_content', expect.any(String))

    const next = await service.request('/responses', { json: { ...asked, input: [question, ...items, ...results] } })
    expect([next.status, next.headers.get('x-ignored-params')]).toEqual([200, null])
    const body = upstream.calls[1]?.body ?? {}
    expect(claudeFaults(body)).toEqual([])
    expect(body).toMatchObject({ thinking: { type: 'enabled' }, messages: [{}, { content }, {}] })
  })

  test('as references', async () => {
    const first = replay('anthropic/text.json', { content, stop_reason: 'tool_use' })
    const { upstream, service } = await serviceOver('@ai-sdk/anthropic', first, replay('anthropic/text.json'))
    const response = await service.request('/responses', { json: { ...asked, input: [question] } })
    const output: OutputItem[] = JSON.parse(await response.text()).output
    const references = output.map(({ id }) => ({ type: 'item_reference', id }))
    await service.request('/responses', { json: { ...asked, input: [question, ...references, ...results] } })
    expect(upstream.calls[1]?.body).toMatchObject({ messages: [{}, { content }, {}] })
  })

  test('without the reasoning items: Claude does not think, and the request names it', async () => {
    const first = replay('anthropic/text.json', { content, stop_reason: 'tool_use' })
    const { upstream, service } = await serviceOver('@ai-sdk/anthropic', first, replay('anthropic/text.json'))
    const response = await service.request('/responses', { json: { ...asked, input: [question] } })
    const output: OutputItem[] = JSON.parse(await response.text()).output
    const items = output.filter(({ type }) => type !== 'reasoning')
    const next = await service.request('/responses', { json: { ...asked, input: [question, ...items, ...results] } })
    expect([next.status, next.headers.get('x-ignored-params')]).toEqual([200, 'reasoning.effort'])
    expect(claudeFaults(upstream.calls[1]?.body ?? {})).toEqual([])
  })
})

test.each([false, true])('a signature of a call of Gemini goes back with its call (streamed: %s)', async (stream) => {
  const parts = [{ functionCall: { name: 'moisture', args: {} }, thoughtSignature: 'sig' }]
  const answer = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] }
  const first = stream ? pieces([sse(JSON.stringify(answer))]) : replay('google/text.json', answer)
  const { upstream, service } = await serviceOver('@ai-sdk/google', first, replay('google/text.json'))
  const request = { ...asked, reasoning: null }
  const response = await service.request('/responses', { json: { ...request, input: [question], stream } })
  const text = await response.text()
  const items: OutputItem[] = stream ? done(text).flatMap(({ output }) => output) : JSON.parse(text).output
  const called = items.flatMap((item) => (item.type === 'function_call' ? [item.call_id] : []))
  const output = called.map((call_id) => ({ type: 'function_call_output', call_id, output: 'dry' }))
  await service.request('/responses', { json: { ...request, input: [question, ...items, ...output] } })
  expect(upstream.calls[1]?.body['contents']).toMatchObject([{}, { parts: [{ thoughtSignature: 'sig' }] }, {}])
})

test('encrypted content of another service is left out, and the request names it', async () => {
  const { upstream, service } = await serviceOver('@ai-sdk/anthropic', replay('anthropic/text.json'))
  const foreign = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAAABoISQ24OyVRYbk' }
  const response = await service.request('/responses', { json: { ...asked, input: [question, foreign, question] } })
  expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, 'input.reasoning'])
  expect(JSON.stringify(upstream.calls[0]?.body)).not.toContain('gAAAA')
})
