import { describe, expect, test } from 'vitest'
import type { AiSdkSettings } from '../../../src/models/configuration/settings.ts'
import type { CompletionRequest, Message } from '../../../src/openai/completion-request.ts'
import {
  asked,
  complete,
  gardenTools,
  pixel,
  stream,
  toolTurn,
  type Vendor,
  vendorForThisTest,
} from '../../support/ai-sdk.ts'
import { claudeFaults, geminiFaults } from '../../support/provider-faults.ts'
import { replay, replayStream } from '../../support/replay.ts'

/** What a provider gets for a request, the faults that it would find, and the ignored parameters. */
async function sent(vendor: Vendor, more: Partial<CompletionRequest>, settings: Partial<AiSdkSettings> = {}) {
  const ignored: string[] = []
  const { model, upstream } = await vendorForThisTest(vendor, [replay(`${vendor}/text.json`)], settings)
  await complete(
    model,
    asked(more, (name) => ignored.push(name)),
  )
  const body = upstream.calls[0]?.body ?? {}
  return { body, ignored, faults: vendor === 'anthropic' ? claudeFaults(body) : geminiFaults(body) }
}

const call = (id: string, name = 'soil_moisture', given = '{}') => ({
  id,
  type: 'function' as const,
  function: { name, arguments: given },
})
const asks = (...ids: string[]): Message => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => call(id)),
})
const result = (id: string, content: Message['content'] = 'dry'): Message => ({
  role: 'tool',
  tool_call_id: id,
  content,
})
const user = (content: Message['content'] = 'Which bed is dry?'): Message => ({ role: 'user', content })
const text = (words: string) => ({ type: 'text' as const, text: words })
const signed = (message: Message, ...places: object[]): Message =>
  Object.assign({}, message, {
    extra_content: {
      reasoning: places.map((place, index) => ({
        text: `Thought ${index}.`,
        provider: { anthropic: { signature: `sig${index}` } },
        ...place,
      })),
    },
  })
const cache = { cache_control: { type: 'ephemeral' } }

const histories: Record<string, Message[]> = {
  'a blank text beside a call': [user(), { ...asks('a'), content: [text('\n')] }, result('a')],
  'a blank text before a call': [user(), { ...asks('a'), content: ' \n ' }, result('a')],
  'blank system parts': [{ role: 'system', content: [text(' '), text('\t')] }, user()],
  'a blank system message': [{ role: 'system', content: '\n' }, user()],
  'a blank message of the user': [user('\n'), { role: 'assistant', content: 'Hm.' }, user()],
  'blank parts of the user': [user([text('One'), text(' '), text('')])],
  'only blank messages': [user(' '), { role: 'assistant', content: '\n' }, user('\t')],
  'a blank mark of the cache': [user([text('One'), Object.assign(text(' '), cache)])],
  'an empty result': [user(), asks('a'), result('a', '')],
  'a blank result in parts': [user(), asks('a'), result('a', [text(' '), text('\n')])],
  'a result that is a picture': [
    user(),
    asks('a'),
    result('a', [{ type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }]),
  ],
  'a beginning that ends with blanks': [user(), { role: 'assistant', content: [text('The north bed \n'), text('\n')] }],
  'a blank beginning': [user(), { role: 'assistant', content: '  ' }],
  'ids with other characters': [
    user(),
    asks('functions.f:0', 'functions_f_0'),
    result('functions.f:0'),
    result('functions_f_0'),
  ],
  'an id of 10,000 letters': [user(), asks('x'.repeat(10_000)), result('x'.repeat(10_000))],
  'the same id in two turns': [user(), asks('call_0'), result('call_0'), asks('call_0'), result('call_0')],
  'the same id twice in one turn': [user(), asks('call_0', 'call_0'), result('call_0'), result('call_0')],
  'names with other characters': [
    user(),
    { role: 'assistant', content: null, tool_calls: [call('a', 'files/read it'), call('b', '1st.tool:x')] },
    result('a'),
    result('b'),
  ],
  'a text between call and result': [user(), asks('a'), { role: 'assistant', content: 'Wait.' }, result('a')],
  'a message of the user between call and result': [
    user(),
    asks('a', 'b'),
    user('Hurry!'),
    result('b'),
    user('Now!'),
    result('a'),
  ],
  'two calls in two messages': [user(), asks('a'), asks('b'), result('a'), result('b')],
  'a call without a result': [user(), asks('a', 'b'), result('b'), user('And?')],
  'a call at the end': [user(), asks('a')],
  'two results of one call': [user(), asks('a'), result('a'), result('a', 'wet')],
  'a result of an older function without its call': [user(), { role: 'function', name: 'water', content: 'done' }],
  'arguments that are no object': [
    user(),
    { ...asks(), tool_calls: [call('a', 'f', '[1]'), call('b', 'f', 'null')] },
    result('a'),
    result('b'),
  ],
  'arguments that were cut off': [user(), { ...asks(), tool_calls: [call('a', 'f', '{"bed":')] }, result('a')],
}

describe.each<Vendor>(['anthropic', 'google'])('%s takes', (vendor) => {
  test.each(Object.entries(histories))('%s', async (_what, messages) => {
    const { faults, body } = await sent(vendor, { messages, tools: gardenTools })
    expect([faults, JSON.stringify(body)]).toEqual([[], expect.any(String)])
    expect((await sent(vendor, { messages })).faults).toEqual([])
  })
})

describe('Claude', () => {
  test('gets the results behind their calls, and the texts between them after the results', async () => {
    const messages = histories['a message of the user between call and result']
    const { body } = await sent('anthropic', { messages })
    expect(body['messages']).toMatchObject([
      {},
      { content: [{ id: 'a' }, { id: 'b' }] },
      {
        content: [{ tool_use_id: 'b' }, { tool_use_id: 'a' }, { text: 'Hurry!' }, { text: 'Now!' }],
      },
    ])
  })

  test('gets no blank stop sequence, and the request names it', async () => {
    const { body, ignored } = await sent('anthropic', { stop: ['\n', 'END', '  '] })
    expect([body['stop_sequences'], ignored]).toEqual([['END'], ['stop']])
    const all = await sent('anthropic', { stop: '\n\n' })
    expect([all.body['stop_sequences'], all.ignored]).toEqual([undefined, ['stop']])
  })

  test('gets safe ids for calls and their results, and each keeps its own', async () => {
    const { body } = await sent('anthropic', { messages: histories['ids with other characters'] })
    expect(body['messages']).toMatchObject([
      {},
      { content: [{ id: 'functions_f_0' }, { id: 'functions_f_0_2' }] },
      { content: [{ tool_use_id: 'functions_f_0' }, { tool_use_id: 'functions_f_0_2' }] },
    ])
  })

  test('gets safe names of tools, and the client gets its own names back', async () => {
    const names = ['soil_moisture', 'soil.moisture', 'x'.repeat(100)]
    const tools = ['soil.moisture', 'soil_moisture', names[2] ?? ''].map((name) => ({
      type: 'function' as const,
      function: { name },
    }))
    const request = { tools, tool_choice: { type: 'function' as const, function: { name: 'soil.moisture' } } }
    const { body, faults } = await sent('anthropic', request)
    expect(faults).toEqual([])
    expect(body['tools']).toMatchObject([
      { name: 'soil_moisture_2' },
      { name: 'soil_moisture' },
      { name: 'x'.repeat(64) },
    ])
    expect(body['tool_choice']).toMatchObject({ name: 'soil_moisture_2' })
    const content = [{ type: 'tool_use', id: 'toolu_1', name: 'soil_moisture_2', input: { bed: 'north' } }]
    const { model } = await vendorForThisTest('anthropic', [
      replay('anthropic/text.json', { content, stop_reason: 'tool_use' }),
      replayStream('anthropic/tool-calls-stream.txt'),
    ])
    const { choices } = await complete(model, asked(request))
    expect(choices[0]?.message.tool_calls).toMatchObject([{ function: { name: 'soil.moisture' } }])
  })

  test('gets each tool once, and tools without a choice of schemas at the top', async () => {
    const tools = [
      { type: 'function' as const, function: { name: 'f', description: 'Old.' } },
      { type: 'function' as const, function: { name: 'f', parameters: { anyOf: [{ type: 'object' }], title: 'F' } } },
    ]
    const { body, ignored, faults } = await sent('anthropic', { tools })
    expect([faults, ignored]).toEqual([[], ['tools']])
    expect(body['tools']).toEqual([{ name: 'f', input_schema: { type: 'object', title: 'F' } }])
  })

  test('gets a mark of the cache at the text before a blank text', async () => {
    const { body } = await sent('anthropic', { messages: histories['a blank mark of the cache'] })
    expect(body['messages']).toMatchObject([{ content: [{ text: 'One', cache_control: { type: 'ephemeral' } }] }])
  })

  test('gets no user of more than 256 letters, and the request names it', async () => {
    const { body, ignored } = await sent('anthropic', { user: 'u'.repeat(257) })
    expect([body['metadata'], ignored]).toEqual([undefined, ['user']])
  })

  test.each<[string, Message[]]>([
    ['the history has calls without thinking', [user(), asks('a'), result('a')]],
    ['the calls were answered, and the user goes on', [user(), asks('a'), result('a'), user('And?')]],
    ['a loop has calls without thinking', [user(), asks('a'), result('a'), asks('b'), result('b')]],
    ['a loop began without thinking', [user(), asks('a'), result('a'), signed(asks('b'), {}), result('b')]],
    [
      'the thinking is not signed',
      [
        user(),
        Object.assign(asks('a'), { reasoning_content: 'Hm.', extra_content: { reasoning: [{ text: 'Hm.' }] } }),
        result('a'),
      ],
    ],
    [
      'the thinking came after a text',
      [user(), signed({ ...asks('a'), content: 'Look.' }, { after_characters: 5 }), result('a')],
    ],
    ['a message is continued', [user(), { role: 'assistant', content: 'The north bed' }]],
  ])('does not think if %s', async (_why, messages) => {
    const { body, ignored, faults } = await sent('anthropic', { messages, reasoning_effort: 'low', max_tokens: 9000 })
    expect([body['thinking'], ignored, faults]).toEqual([undefined, ['reasoning_effort'], []])
    const providerOptions = { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } }
    const set = await sent('anthropic', { messages, max_tokens: 9000 }, { providerOptions })
    expect([set.body['thinking'], set.ignored, set.faults]).toEqual([undefined, [], []])
  })

  test.each<[string, Message[]]>([
    ['nothing was called', [user(), { role: 'assistant', content: 'The north bed.' }, user('And?')]],
    ['the thinking of the calls is signed', [user(), signed(asks('a'), {}), result('a')]],
    ['the user goes on after signed calls', [user(), signed(asks('a'), {}), result('a'), user('And?')]],
    [
      'earlier turns called without thinking',
      [user(), asks('a'), result('a'), { role: 'assistant', content: 'Dry.' }, user('And?')],
    ],
  ])('thinks if %s', async (_why, messages) => {
    const { body, ignored, faults } = await sent('anthropic', { messages, reasoning_effort: 'low', max_tokens: 20_000 })
    expect([body['thinking'], ignored, faults]).toEqual([{ type: 'enabled', budget_tokens: 2000 }, [], []])
  })

  test('gets signed thinking in its place among texts and calls', async () => {
    const places = [{}, { after_characters: 4 }, { after_characters: 9, after_calls: 1 }]
    const messages = [
      user(),
      signed({ ...asks('a', 'b'), content: 'One.\nTwo. Three.' }, ...places),
      result('a'),
      result('b'),
    ]
    const { body } = await sent('anthropic', { messages, reasoning_effort: 'low' })
    expect(body['messages']).toMatchObject([
      {},
      {
        content: [
          { thinking: 'Thought 0.', signature: 'sig0' },
          { text: 'One.' },
          { thinking: 'Thought 1.', signature: 'sig1' },
          { text: '\nTwo.' },
          { id: 'a' },
          { thinking: 'Thought 2.', signature: 'sig2' },
          { text: ' Three.' },
          { id: 'b' },
        ],
      },
      {},
    ])
  })

  test('gets back what it thought between its texts and calls, whole and streamed', async () => {
    const content = [
      { type: 'thinking', thinking: 'First.', signature: 's1' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 't1', name: 'soil_moisture', input: { bed: 'north' } },
      { type: 'redacted_thinking', data: 'r2' },
      { type: 'text', text: 'And again.' },
      { type: 'tool_use', id: 't2', name: 'soil_moisture', input: {} },
    ]
    const { model, upstream } = await vendorForThisTest('anthropic', [
      replay('anthropic/text.json', { content, stop_reason: 'tool_use' }),
      replay('anthropic/text.json'),
    ])
    const request = { tools: gardenTools, reasoning_effort: 'low' }
    const { choices } = await complete(model, asked(request))
    const said: Message = JSON.parse(JSON.stringify(choices[0]?.message))
    await complete(model, asked({ ...request, messages: [user(), said, result('t1'), result('t2')] }))
    expect(upstream.calls[1]?.body['messages']).toMatchObject([{}, { content }, {}])
  })
})

describe('Gemini', () => {
  test('gets five stop sequences, and the request names the others', async () => {
    const { body, ignored } = await sent('google', { stop: ['1', '2', '3', '4', '5', '6'] })
    expect([body['generationConfig'], ignored]).toMatchObject([{ stopSequences: ['1', '2', '3', '4', '5'] }, ['stop']])
  })

  test('gets a text for a result that is a picture', async () => {
    const { body } = await sent('google', { messages: histories['a result that is a picture'] })
    expect(body['contents']).toMatchObject([
      {},
      {},
      { parts: [{ functionResponse: { name: 'soil_moisture' } }, { inlineData: {} }, {}] },
    ])
  })

  test('returns pictures beside the text, and takes them back', async () => {
    const inlineData = { mimeType: 'image/png', data: pixel }
    const parts = [{ text: 'Look: ' }, { inlineData, thoughtSignature: 'sig' }]
    const candidates = [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }]
    const { model, upstream } = await vendorForThisTest('google', [replay('google/text.json', { candidates })])
    const { choices } = await complete(model, asked())
    const picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }
    expect(choices[0]?.message).toMatchObject({ content: 'Look: ', images: [picture] })
    const said: Message = JSON.parse(JSON.stringify(choices[0]?.message))
    await complete(model, asked({ messages: [user(), said, user('Greener!')] }))
    const contents = upstream.calls[1]?.body['contents']
    expect(contents).toMatchObject([{}, { role: 'model', parts }, {}])
    const asPart: Message = { role: 'assistant', content: [{ ...picture, type: 'image_url' }] }
    await complete(model, asked({ messages: [user(), asPart, user('Greener!')] }))
    expect(upstream.calls[2]?.body['contents']).toMatchObject([{}, { parts: [{ inlineData }] }, {}])
  })

  test('a picture alone is an answer, and another file is a 502 that names its type', async () => {
    const answer = (mimeType: string) => {
      const parts = [{ inlineData: { mimeType, data: pixel } }]
      return replay('google/text.json', { candidates: [{ content: { parts }, finishReason: 'STOP' }] })
    }
    const { model } = await vendorForThisTest('google', [answer('image/webp'), answer('audio/wav')])
    expect((await complete(model, asked())).choices[0]?.message).toMatchObject({ content: '', images: [{}] })
    await expect(complete(model, asked())).rejects.toMatchObject({
      status: 502,
      message: expect.stringContaining('"audio/wav"'),
    })
  })

  test('gets the signature of its text back in a loop of tools', async () => {
    const parts = [
      { text: 'I look.', thoughtSignature: 'of-text' },
      { functionCall: { name: 'soil_moisture', args: {} }, thoughtSignature: 'of-call' },
    ]
    const candidates = [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0 }]
    const { model, upstream } = await vendorForThisTest('google', [replay('google/text.json', { candidates })])
    const { choices } = await complete(model, asked({ tools: gardenTools }))
    const said: Message = JSON.parse(JSON.stringify(choices[0]?.message))
    const id = choices[0]?.message.tool_calls?.[0]?.id ?? ''
    await complete(model, asked({ tools: gardenTools, messages: [user(), said, result(id)] }))
    expect(upstream.calls[1]?.body['contents']).toMatchObject([
      {},
      { parts: [{ text: 'I look.' }, { text: '', thoughtSignature: 'of-text' }, { thoughtSignature: 'of-call' }] },
      {},
    ])
  })

  test('a picture for Claude is left out, and the request names it', async () => {
    const said: Message = Object.assign(
      { role: 'assistant' as const, content: 'Look.' },
      {
        images: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } }],
      },
    )
    const { ignored, faults } = await sent('anthropic', { messages: [user(), said, user('Greener!')] })
    expect([ignored, faults]).toEqual([['messages.images'], []])
  })
})

test('a stream of calls has the names of the request', async () => {
  const { model } = await vendorForThisTest('anthropic', [replayStream('anthropic/tool-calls-stream.txt')])
  const tools = [{ type: 'function' as const, function: { name: 'soil moisture' } }, ...(gardenTools ?? []).slice(1)]
  const { chunks } = await stream(model, asked({ stream: true, tools, messages: toolTurn.slice(0, 1) }))
  const names = chunks.flatMap(({ choices }) => choices).flatMap(({ delta }) => delta.tool_calls ?? [])
  expect(names.flatMap(({ function: called }) => called?.name ?? [])).toEqual(['soil moisture', 'all_beds'])
})
