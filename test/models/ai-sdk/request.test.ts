import { describe, expect, test } from 'vitest'
import type { CompletionRequest, Message } from '../../../src/openai/completion-request.ts'
import {
  asked,
  complete,
  failureFrom,
  gardenTools,
  pixel,
  stream,
  toolTurn,
  vendorForThisTest,
} from '../../support/ai-sdk.ts'
import { replay, replayStream } from '../../support/replay.ts'

/** The call that a provider's server gets for a request, and the ignored parameters that are reported. */
async function sent(vendor: 'anthropic' | 'google', more: Partial<CompletionRequest>, settings = {}) {
  const ignored: string[] = []
  const { model, upstream } = await vendorForThisTest(vendor, [replay(`${vendor}/text.json`)], settings)
  await complete(
    model,
    asked(more, (parameter) => ignored.push(parameter)),
  )
  const [call] = upstream.calls
  if (call === undefined) throw new Error('Nothing was sent.')
  return { ...call, ignored }
}

const urlSafe = (base64: string) => base64.replaceAll('+', '-').replaceAll('/', '_')

describe('anthropic', () => {
  test('gets the request in the format of its API', async () => {
    const call = await sent('anthropic', {
      messages: [
        { role: 'system', content: 'You are Fern.' },
        { role: 'developer', content: 'Be short.' },
        { role: 'user', content: 'Hello' },
      ],
      max_completion_tokens: 50,
      temperature: 0.5,
      stop: ['END', ''],
      tools: gardenTools,
      tool_choice: 'required',
      parallel_tool_calls: false,
      user: 'user-1',
    })
    expect(call.path).toBe('/v1/messages')
    expect(call.headers).toMatchObject({ 'x-api-key': 'canary-key-1234567890', 'anthropic-version': '2023-06-01' })
    expect(call.body).toMatchObject({
      model: 'claude-sonnet-4-5',
      max_tokens: 50,
      temperature: 0.5,
      stop_sequences: ['END'],
      system: [{ type: 'text', text: 'You are Fern.\n\nBe short.' }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
      tools: [
        {
          name: 'soil_moisture',
          description: 'How wet a bed is.',
          input_schema: { type: 'object', required: ['bed'] },
        },
        { name: 'all_beds', input_schema: { type: 'object', properties: {} } },
      ],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      metadata: { user_id: 'user-1' },
    })
    expect(call.ignored).toEqual([])
  })

  test.each([
    ['none', { type: 'none' }],
    ['auto', { type: 'auto' }],
    [
      { type: 'function', function: { name: 'all_beds' } },
      { type: 'tool', name: 'all_beds' },
    ],
  ] as const)('gets the tool choice %j', async (tool_choice, expected) => {
    const { body } = await sent('anthropic', { tools: gardenTools, tool_choice })
    expect(body['tool_choice']).toMatchObject(expected)
  })

  test('gets tool calls, and all results of a turn in one message', async () => {
    const { body } = await sent('anthropic', { messages: toolTurn, tools: gardenTools })
    expect(body['messages']).toMatchObject([
      { role: 'user', content: [{ text: 'Which bed is dry?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'call_a', name: 'soil_moisture', input: { bed: 'north' } },
          { type: 'tool_use', id: 'call_b', name: 'all_beds', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_b', content: '["north","south"]' },
          { type: 'tool_result', tool_use_id: 'call_a', content: 'dry' },
        ],
      },
    ])
  })

  test('gets texts and images of an unknown subtype from URL-safe base64', async () => {
    const urls = [`data:image/*;base64,${urlSafe(pixel)}`, `data:;base64,${urlSafe(pixel)}`]
    const text = { filename: 'care.txt', file_data: Buffer.from('Wässere täglich. \u{1faf6}').toString('base64url') }
    const content: Message['content'] = [
      ...urls.map((url) => ({ type: 'image_url' as const, image_url: { url } })),
      { type: 'file', file: text },
    ]
    const { body } = await sent('anthropic', { messages: [{ role: 'user', content }] })
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } }
    expect(body['messages']).toMatchObject([
      {
        content: [
          image,
          image,
          { type: 'document', source: { type: 'text', data: 'Wässere täglich. \u{1faf6}' }, title: 'care.txt' },
        ],
      },
    ])
  })

  test('gets images as bytes or as addresses that its own service fetches', async () => {
    const { body } = await sent('anthropic', {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is it?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
            { type: 'image_url', image_url: { url: 'https://pictures.example/fern', detail: 'high' } },
            { type: 'file', file: { filename: 'care.pdf', file_data: 'data:application/pdf;base64,JVBERi0xLjQK' } },
            { type: 'file', file: { filename: 'care.pdf', file_data: 'JVBERi0xLjQK' } },
            { type: 'file', file: { file_data: 'data:text/plain,Water%20it.' } },
          ],
        },
      ],
    })
    expect(body['messages']).toMatchObject([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: pixel } },
          { type: 'image', source: { type: 'url', url: 'https://pictures.example/fern' } },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf' }, title: 'care.pdf' },
          { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0xLjQK' } },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Water it.' } },
        ],
      },
    ])
  })

  test('reports the parameters that it left out or changed', async () => {
    const { ignored, body } = await sent('anthropic', {
      temperature: 1.5,
      top_p: 0.5,
      seed: 7,
      response_format: { type: 'json_object' },
      reasoning_effort: 'as much as you like',
      messages: [{ role: 'user', name: 'Alice', content: 'Hello' }],
    })
    expect(body['temperature']).toBe(1)
    expect(ignored.toSorted()).toEqual([
      'messages.name',
      'reasoning_effort',
      'response_format',
      'seed',
      'temperature',
      'top_p',
    ])
  })

  test('reports ignored parameters before the first event of a stream', async () => {
    const ignored: string[] = []
    const { model } = await vendorForThisTest('anthropic', [replayStream('anthropic/text-stream.txt')])
    const request = asked({ stream: true, temperature: 1.5 }, (parameter) => ignored.push(parameter))
    for await (const _group of model.stream(request, new AbortController().signal)) {
      expect(ignored).toEqual(['temperature'])
    }
  })

  test("gets the operator's options, which win over the request's", async () => {
    const { body, headers } = await sent(
      'anthropic',
      { user: 'user-1', parallel_tool_calls: false, tools: gardenTools },
      {
        headers: { 'x-team': 'green' },
        providerOptions: { anthropic: { serviceTier: 'auto', metadata: { userId: 'team' } } },
      },
    )
    expect(headers['x-team']).toBe('green')
    expect(body).toMatchObject({ service_tier: 'auto', metadata: { user_id: 'team' } })
  })

  test('returns its signed thinking, whole and streamed', async () => {
    const signed = {
      text: 'Yellow from below means water.',
      provider: { anthropic: { signature: 'EqQBCkYIARgCKkAfern==' } },
    }
    const redacted = { text: '', provider: { anthropic: { redactedData: 'EmwKAhgBEgy3va3fern==' } } }
    const scripts = [replay('anthropic/thinking.json'), replayStream('anthropic/thinking-stream.txt')]
    const { model } = await vendorForThisTest('anthropic', scripts)
    const completion = await complete(model, asked({ reasoning_effort: 'low' }))
    expect(completion.choices[0]?.message).toHaveProperty('extra_content', { reasoning: [signed, redacted] })
    const { chunks } = await stream(model, asked({ stream: true, reasoning_effort: 'low' }))
    expect(chunks.at(-2)?.choices[0]).toMatchObject({
      delta: { extra_content: { reasoning: [signed] } },
      finish_reason: 'stop',
    })
  })

  test('gets its signed thinking back in a tool loop, but not after the loop', async () => {
    const thinking = {
      extra_content: { reasoning: [{ text: 'Hm.', provider: { anthropic: { signature: 'sig==' } } }] },
    }
    const [question, call, ...results] = toolTurn
    const loop = [question, { ...call, ...thinking }, ...results].filter((message) => message !== undefined)
    const messages = loop.map((message): Message => ({ role: 'user', ...message }))
    const open = await sent('anthropic', { messages, tools: gardenTools, reasoning_effort: 'low' })
    expect(open.body['messages']).toMatchObject([
      {},
      {
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: 'sig==' },
          { type: 'tool_use' },
          { type: 'tool_use' },
        ],
      },
      {},
    ])
    const closed = await sent('anthropic', {
      messages: [...messages, { role: 'user', content: 'And?' }],
      tools: gardenTools,
    })
    expect(JSON.stringify(closed.body['messages'])).not.toContain('sig==')
  })
})

describe('google', () => {
  test('gets the request in the format of its API', async () => {
    const call = await sent('google', {
      messages: [
        { role: 'system', content: 'You are Fern.' },
        { role: 'user', content: 'Hello' },
      ],
      max_tokens: 50,
      temperature: 1.5,
      top_p: 0.5,
      stop: 'END',
      seed: 7,
      tools: gardenTools,
      tool_choice: { type: 'function', function: { name: 'all_beds' } },
      reasoning_effort: 'none',
    })
    expect(call.path).toBe('/v1/models/gemini-2.5-flash:generateContent')
    expect(call.headers['x-goog-api-key']).toBe('canary-key-1234567890')
    expect(call.body).toMatchObject({
      systemInstruction: { parts: [{ text: 'You are Fern.' }] },
      contents: [{ role: 'user', parts: [{ text: 'Hello' }] }],
      generationConfig: {
        maxOutputTokens: 50,
        temperature: 1.5,
        topP: 0.5,
        stopSequences: ['END'],
        seed: 7,
        thinkingConfig: { thinkingBudget: 0 },
      },
      tools: [{ functionDeclarations: [{ name: 'soil_moisture' }, { name: 'all_beds' }] }],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['all_beds'] } },
    })
    expect(call.ignored).toEqual([])
  })

  test('gets tool calls, and all results of a turn in one content', async () => {
    const { body } = await sent('google', { messages: toolTurn, tools: gardenTools })
    expect(body['contents']).toMatchObject([
      { role: 'user' },
      {
        role: 'model',
        parts: [
          { functionCall: { name: 'soil_moisture', args: { bed: 'north' } } },
          { functionCall: { name: 'all_beds', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { name: 'all_beds', response: { content: '["north","south"]' } } },
          { functionResponse: { name: 'soil_moisture', response: { content: 'dry' } } },
        ],
      },
    ])
  })

  test('gets its thought signatures back from a client that returns messages unchanged', async () => {
    const scripts = [replay('google/tool-calls.json'), replay('google/text.json')]
    const { model, upstream } = await vendorForThisTest('google', scripts)
    const first = await complete(model, asked({ tools: gardenTools }))
    const [choice] = first.choices
    if (choice === undefined) throw new Error('There is no choice.')
    const overTheWire: Message = JSON.parse(JSON.stringify(choice.message))
    const results = (choice.message.tool_calls ?? []).map(
      ({ id }): Message => ({ role: 'tool', tool_call_id: id, content: 'dry' }),
    )
    await complete(model, asked({ tools: gardenTools, messages: [...asked().body.messages, overTheWire, ...results] }))
    expect(upstream.calls[1]?.body['contents']).toMatchObject([
      {},
      { role: 'model', parts: [{ functionCall: {}, thoughtSignature: 'CiIBVKhc7vfern==' }, { functionCall: {} }] },
      { role: 'user', parts: [{ functionResponse: {} }, { functionResponse: {} }] },
    ])
  })

  test('streams a thought signature with its tool call', async () => {
    const { model } = await vendorForThisTest('google', [replayStream('google/tool-calls-stream.txt')])
    const { chunks } = await stream(model, asked({ stream: true, tools: gardenTools }))
    const pieces = chunks.flatMap(({ choices }) => choices).flatMap(({ delta }) => delta.tool_calls ?? [])
    expect(pieces.filter((piece) => 'extra_content' in piece)).toEqual([
      { index: 0, extra_content: { google: { thoughtSignature: 'CiIBVKhc7vfern==' } } },
    ])
  })

  test('gets images, audio and JSON schemas', async () => {
    const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
    const { body } = await sent('google', {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: `data:image/jpg;base64,${pixel}` } },
            { type: 'image_url', image_url: { url: 'https://pictures.example/fern.webp' } },
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
          ],
        },
      ],
      response_format: { type: 'json_schema', json_schema: { name: 'plant', schema } },
    })
    expect(body['contents']).toMatchObject([
      {
        parts: [
          { inlineData: { mimeType: 'image/jpeg', data: pixel } },
          { fileData: { mimeType: 'image/webp', fileUri: 'https://pictures.example/fern.webp' } },
          { inlineData: { mimeType: 'audio/wav', data: 'UklGRg==' } },
        ],
      },
    ])
    expect(body['generationConfig']).toMatchObject({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object', required: ['name'] },
    })
  })

  test('gets a seed of its own for each further choice', async () => {
    const { model, upstream } = await vendorForThisTest('google', [replay('google/text.json')])
    await complete(model, asked({ n: 3, seed: 7 }))
    const seeds = upstream.calls.map(({ body }) => JSON.stringify(body).match(/"seed":(\d+)/)?.[1])
    expect(seeds.toSorted()).toEqual(['7', '8', '9'])
  })
})

describe('a request that cannot be translated is a 400 that names the field, and nothing is sent', () => {
  const image = (url: string): Message[] => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const withCall = (given: string): Message[] => [
    {
      role: 'assistant',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: given } }],
    },
  ]

  // If a provider does not fetch the address of an image, its package would download the image. So such an address is refused.
  test.each<[string, 'anthropic' | 'google', Message[], string]>([
    ['an address of another kind', 'anthropic', image('file:///etc/passwd'), 'image_url.url'],
    ['an address that the service does not fetch', 'google', image('http://169.254.169.254/x.png'), 'image_url.url'],
    ['an address of 9 kB', 'google', image(`https://pictures.example/${'a'.repeat(9000)}.png`), 'image_url.url'],
    ['an image without a file extension', 'google', image('https://pictures.example/fern'), 'image_url.url'],
    ['text that is not base64', 'anthropic', image('data:image/png;base64,not base64!'), 'image_url.url'],
    ['a data URL of the type constructor', 'anthropic', image('data:constructor;base64,?'), 'image_url.url'],
    ['a data URL that ends within a character', 'anthropic', image('data:text/plain,%zz'), 'image_url.url'],
    [
      'a data URL with a long head',
      'anthropic',
      image(`data:image/png;${'a;'.repeat(500)}base64,AAAA`),
      'image_url.url',
    ],
    ['a data URL without data', 'anthropic', image('data:image/png'), 'image_url.url'],
    ['arguments that are nested too deeply', 'google', withCall('{"a":'.repeat(200)), 'function.arguments'],
    [
      'a file that only OpenAI has',
      'anthropic',
      [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }],
      'content[].file',
    ],
    [
      "a tool's image at an address, which a package might download",
      'google',
      [
        ...withCall('{}'),
        {
          role: 'tool',
          tool_call_id: 'a',
          content: [{ type: 'image_url', image_url: { url: 'https://pictures.example/fern.png' } }],
        },
      ],
      'image_url.url',
    ],
  ])('%s', async (_case, vendor, messages, param) => {
    const { model, upstream } = await vendorForThisTest(vendor, [replay(`${vendor}/text.json`)])
    const error = await failureFrom(complete(model, asked({ messages })))
    expect(error).toMatchObject({ status: 400, code: 'invalid_field', param: expect.stringContaining(param) })
    const streamed = await stream(model, asked({ messages, stream: true }))
    expect(streamed.error).toMatchObject({ status: 400 })
    expect(upstream.calls).toHaveLength(0)
  })

  test('a media type that the package refuses is named in the message', async () => {
    const { model, upstream } = await vendorForThisTest('anthropic', [replay('anthropic/text.json')])
    const content: Message['content'] = [{ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } }]
    const error = await failureFrom(complete(model, asked({ messages: [{ role: 'user', content }] })))
    expect(error).toMatchObject({ status: 400, code: 'unsupported_by_model' })
    expect(error.message).toContain('audio/wav')
    expect(upstream.calls).toHaveLength(0)
  })
})
