import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { pixel } from '../support/ai-sdk.ts'
import { often } from '../support/often.ts'
import { claudeFaults, geminiFaults } from '../support/provider-faults.ts'
import { serviceForThisTest } from '../support/service.ts'
import { completion, json, upstreamForThisTest } from '../support/upstream.ts'

/* What the service answers, it takes back: the assistant's message goes into the history of the next request. */

const words = fc.constantFrom('Dry.', 'Yellow leaves? 🌱', '', ' ', '\n', 'Note: http://localhost/ is down.')
const thinking = fc.record({
  type: fc.constant('thinking'),
  thinking: fc.array(fc.record({ type: fc.constant('text'), text: words })),
})
const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text: words }),
  thinking,
  fc.record({ type: fc.constant('reference'), reference_ids: fc.array(fc.nat(9)) }),
  fc.record({ type: fc.constant('tool_reference'), title: words, url: fc.constant('https://pictures.example/fern') }),
  fc.record({ type: fc.constant('refusal'), refusal: words }),
  fc.record({ type: fc.constant('output_text'), text: words, annotations: fc.constant([]) }),
  fc.record({
    type: fc.constant('future_part'),
    data: fc.anything({ maxDepth: 1, values: [words, fc.boolean(), fc.nat()] }),
  }),
)
const given = fc.constantFrom<unknown>(
  '{"bed":"north"}',
  '{}',
  '',
  '{"bed":',
  '[1]',
  'null',
  { bed: 'north' },
  null,
  undefined,
)
const call = fc.record(
  {
    id: fc.constantFrom('a', 'functions.f:0', 'call_1', 'x'.repeat(300)),
    type: fc.constant('function'),
    function: fc.record({ name: fc.constantFrom('moisture', 'soil.moisture', 'all beds'), arguments: given }),
    extra_content: fc.constant({ google: { thoughtSignature: 'sig' } }),
  },
  { requiredKeys: ['id', 'function'] },
)
const picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }
/** A message as an OpenAI-compatible upstream sends it. */
const message = fc.record(
  {
    role: fc.constant('assistant'),
    content: fc.oneof(words, fc.constant(null), fc.array(part, { maxLength: 4 })),
    refusal: fc.constantFrom(null, 'No.'),
    reasoning_content: words,
    reasoning_details: fc.constant([{ type: 'reasoning.text', text: 'Hm.', signature: 's' }]),
    images: fc.constant([picture]),
    annotations: fc.constant([]),
    tool_calls: fc.uniqueArray(call, { maxLength: 3, selector: ({ id }) => id }),
    extra_content: fc.constant({ reasoning: [{ text: 'Hm.', provider: { anthropic: { signature: 's' } } }] }),
  },
  { requiredKeys: ['role', 'content'] },
)

/** An answer of Claude. */
const block = fc.oneof(
  fc.record({ type: fc.constant('text'), text: words }),
  fc.record({ type: fc.constant('thinking'), thinking: words, signature: fc.constantFrom('s1', '') }),
  fc.record({ type: fc.constant('redacted_thinking'), data: fc.constant('r') }),
  fc.record({
    type: fc.constant('tool_use'),
    id: fc.uuid(),
    name: fc.constant('moisture'),
    input: fc.constantFrom({}, { bed: 'n' }),
  }),
  fc.record({ type: fc.constant('future_block'), data: words }),
)
/** A part of an answer of Gemini. */
const piece = fc.record(
  {
    text: words,
    thought: fc.boolean(),
    thoughtSignature: fc.constant('sig'),
    functionCall: fc.record({ name: fc.constant('moisture'), args: fc.constant({ bed: 'n' }) }),
    inlineData: fc.constant({ mimeType: 'image/png', data: pixel }),
  },
  { requiredKeys: [] },
)
const usage = { input_tokens: 9, output_tokens: 3 }

/** The answers of each adapter, and the faults of the next request there. */
const adapters = {
  openai: {
    answers: message.map((said) => completion('', { choices: [{ index: 0, message: said, finish_reason: 'stop' }] })),
    faultsOf: () => [],
  },
  '@ai-sdk/anthropic': {
    answers: fc
      .array(block, { minLength: 1, maxLength: 6 })
      .map((content) => ({ type: 'message', content, stop_reason: 'end_turn', usage })),
    faultsOf: claudeFaults,
  },
  '@ai-sdk/google': {
    answers: fc
      .array(piece, { minLength: 1, maxLength: 6 })
      .map((parts) => ({ candidates: [{ content: { parts: [...parts, { text: 'End.' }] }, finishReason: 'STOP' }] })),
    faultsOf: geminiFaults,
  },
}
const names = ['openai', '@ai-sdk/anthropic', '@ai-sdk/google'] as const
const tools = [{ type: 'function', function: { name: 'moisture' } }]

async function services() {
  const upstream = await upstreamForThisTest()
  const models = Object.fromEntries(
    names.map((adapter) => [
      adapter,
      { adapter, model: 'm', apiKey: 'a-key-of-tests', baseUrl: upstream.url, retries: 0 },
    ]),
  )
  return { upstream, service: await serviceForThisTest({}, models) }
}

interface Said {
  readonly content: unknown
  readonly tool_calls?: readonly { readonly id: string; readonly function: { readonly arguments?: string | null } }[]
}

/** A message with what OpenAI's API needs. */
function mended({ content, tool_calls: calls, ...said }: Said) {
  const called = calls?.map((each) => ({
    ...each,
    function: { ...each.function, arguments: each.function.arguments ?? '' },
  }))
  const isEmpty = Array.isArray(content) && content.length === 0
  return { ...said, content: isEmpty ? null : content, ...(called && { tool_calls: called }) }
}

const replies: Record<string, object> = {
  openai: completion('Yes.'),
  '@ai-sdk/anthropic': { type: 'message', content: [{ type: 'text', text: 'Yes.' }], stop_reason: 'end_turn', usage },
  '@ai-sdk/google': { candidates: [{ content: { parts: [{ text: 'Yes.' }] }, finishReason: 'STOP' }] },
}

describe.each(Object.entries(adapters))('an answer of %s', (adapter, { answers }) => {
  test('goes into the next request to any adapter', async () => {
    const { upstream, service } = await services()
    const user = { role: 'user', content: 'Is the bed dry?' }
    const ask = (model: string, messages: unknown[]) =>
      service.request('/chat/completions', { json: { model, messages, tools, reasoning_effort: 'low' } })
    await fc.assert(
      fc.asyncProperty(answers, fc.constantFrom(...names), async (answer, model) => {
        upstream.answer(json(answer))
        const response = await ask(adapter, [user])
        // An answer of nothing is no answer.
        if (response.status === 502) return
        expect(response.status).toBe(200)
        const said: Said = JSON.parse(await response.text()).choices[0].message
        const results = (said.tool_calls ?? []).map(({ id }) => ({
          role: 'tool',
          tool_call_id: id,
          content: 'dry',
        }))
        upstream.answer(json(replies[model]))
        upstream.calls.length = 0
        const next = await ask(model, [user, said, ...results, user])
        expect([next.status, next.status === 200 ? '' : await next.text()]).toEqual([200, ''])
        const body = upstream.calls[0]?.body ?? {}
        expect(adapters[model].faultsOf(body)).toEqual([])
        const sent: unknown[] = Array.isArray(body['messages']) ? body['messages'] : []
        if (model === 'openai') expect(sent[1]).toEqual(mended(said))
      }),
      { numRuns: often(200) },
    )
  }, 120_000)
})

test.each<[string, object, object]>([
  [
    'a call without a type',
    { tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{}' } }] },
    { tool_calls: [{ type: 'function' }] },
  ],
  [
    'a custom call without a type',
    { tool_calls: [{ id: 'a', custom: { name: 'f', input: 'x' } }] },
    { tool_calls: [{ type: 'custom' }] },
  ],
  [
    'arguments as an object',
    { tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: { bed: 1 } } }] },
    { tool_calls: [{ function: { arguments: '{"bed":1}' } }] },
  ],
  [
    'no arguments',
    { tool_calls: [{ id: 'a', type: 'function', function: { name: 'f' } }] },
    { tool_calls: [{ function: { arguments: '' } }] },
  ],
  ['an empty list of parts', { content: [] }, { content: null }],
  [
    'thinking of Mistral',
    {
      content: [
        { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
        { type: 'text', text: 'Yes.' },
      ],
    },
    { content: [{ type: 'thinking' }, { text: 'Yes.' }] },
  ],
])('a message with %s is taken', async (_what, more, expected) => {
  const { upstream, service } = await services()
  for (const model of names) {
    upstream.answer(json(replies[model]))
    const messages = [
      { role: 'user', content: 'Hi.' },
      { role: 'assistant', content: null, ...more },
    ]
    const results = 'tool_calls' in more ? [{ role: 'tool', tool_call_id: 'a', content: 'x' }] : []
    const request = { model, messages: [...messages, ...results, { role: 'user', content: 'And?' }] }
    const response = await service.request('/chat/completions', { json: request })
    expect([model, response.status]).toEqual([model, 200])
    if (model === 'openai') expect(upstream.calls[0]?.body['messages']).toMatchObject([{}, expected, ...results, {}])
  }
})

test.each<[string, string, unknown]>([
  ['a type that only an answer has, of the user', 'user', { type: 'thinking', thinking: 'Hm.' }],
  ['a file on the upstream’s disk', 'assistant', { type: 'image', image: 'file:///etc/passwd' }],
  ['a file on the upstream’s disk, at a depth', 'assistant', { type: 'odd', a: [{ b: ' f\nile:/etc/passwd' }] }],
  ['a private host', 'assistant', { type: 'document_url', document_url: 'http://169.254.169.254/' }],
])('a part with %s is refused', async (_what, role, sent) => {
  const { upstream, service } = await services()
  const messages = [{ role, content: [sent] }]
  const response = await service.request('/chat/completions', { json: { model: 'openai', messages } })
  expect([response.status, upstream.calls.length]).toEqual([400, 0])
})
