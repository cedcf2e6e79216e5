import { describe, expect, test } from 'vitest'
import { asked, complete, gardenTools, stream, textOfStream, vendorForThisTest } from '../../support/ai-sdk.ts'
import { faultsOfCompletion, faultsOfStream } from '../../support/openai-schemas.ts'
import { recorded, replay, replayStream } from '../../support/replay.ts'

/** The same answers in the formats of both providers. */
const vendors = [
  {
    vendor: 'anthropic',
    repliedModel: 'claude-sonnet-4-5-20250929',
    usage: { prompt: 1861, cached: 1800, reasoning: 0, completion: 13 },
    thinking: { completion: 120, reasoning: 104 },
    callIds: ['toolu_01Bed0001', 'toolu_01Bed0002'],
  },
  {
    vendor: 'google',
    repliedModel: 'gemini-2.5-flash',
    usage: { prompt: 1861, cached: 1800, reasoning: 73, completion: 86 },
    thinking: { completion: 120, reasoning: 104 },
    callIds: undefined,
  },
] as const

describe.each(vendors)('$vendor', ({ vendor, repliedModel, usage, thinking, callIds }) => {
  test('a whole text, with its cached tokens', async () => {
    const { model } = await vendorForThisTest(vendor, [replay(`${vendor}/text.json`)])
    const completion = await complete(model, asked())
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      model: repliedModel,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Yellow leaves? Most likely too much water.', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: usage.prompt,
        completion_tokens: usage.completion,
        total_tokens: usage.prompt + usage.completion,
        prompt_tokens_details: { cached_tokens: usage.cached },
        completion_tokens_details: { reasoning_tokens: usage.reasoning },
      },
    })
    expect(completion.choices[0]?.message).not.toHaveProperty('tool_calls')
    expect(completion.choices[0]?.message).not.toHaveProperty('reasoning_content')
  })

  test('a streamed text', async () => {
    const { model } = await vendorForThisTest(vendor, [replayStream(`${vendor}/text-stream.txt`)])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(error).toBeUndefined()
    expect(faultsOfStream(chunks)).toEqual([])
    expect(textOfStream(chunks)).toBe('Yellow leaves? 🌱 Too much water.')
    expect(chunks.length).toBeGreaterThan(4)
    expect(chunks[0]).toMatchObject({ model: repliedModel, choices: [{ delta: { role: 'assistant' } }] })
    expect(chunks.at(-2)?.choices).toMatchObject([{ delta: {}, finish_reason: 'stop' }])
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: usage.prompt,
        completion_tokens: 13,
        total_tokens: usage.prompt + 13,
        prompt_tokens_details: { cached_tokens: usage.cached },
      },
    })
  })

  test('two parallel tool calls, whole', async () => {
    const { model } = await vendorForThisTest(vendor, [replay(`${vendor}/tool-calls.json`)])
    const completion = await complete(model, asked({ tools: gardenTools }))
    expect(faultsOfCompletion(completion)).toEqual([])
    const [choice] = completion.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    const calls = choice?.message.tool_calls ?? []
    expect(calls.map((call) => [call.type, call.function.name, JSON.parse(call.function.arguments)])).toEqual([
      ['function', 'soil_moisture', { bed: 'north', depth: 10 }],
      ['function', 'soil_moisture', { bed: 'south' }],
    ])
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2)
    if (callIds) expect(calls.map(({ id }) => id)).toEqual(callIds)
  })

  test('two parallel tool calls, streamed', async () => {
    const { model } = await vendorForThisTest(vendor, [replayStream(`${vendor}/tool-calls-stream.txt`)])
    const { chunks, error } = await stream(model, asked({ stream: true, tools: gardenTools }))
    expect(error).toBeUndefined()
    expect(faultsOfStream(chunks)).toEqual([])
    expect(textOfStream(chunks)).toBe('I will look at both beds.')
    const pieces = chunks.flatMap(({ choices }) => choices).flatMap(({ delta }) => delta.tool_calls ?? [])
    const calls = [0, 1].map((index) => {
      const own = pieces.filter((piece) => piece.index === index)
      expect(own[0]).toMatchObject({ id: expect.any(String), type: 'function', function: { arguments: '' } })
      expect(own.slice(1).every((piece) => piece.id === undefined && piece.function?.name === undefined)).toBe(true)
      return [own[0]?.function?.name, JSON.parse(own.map((piece) => piece.function?.arguments ?? '').join(''))]
    })
    expect(calls).toEqual([
      ['soil_moisture', { bed: 'north', depth: 10 }],
      ['all_beds', {}],
    ])
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('reasoning, whole and streamed', async () => {
    const scripts = [replay(`${vendor}/thinking.json`), replayStream(`${vendor}/thinking-stream.txt`)]
    const { model } = await vendorForThisTest(vendor, scripts)
    const completion = await complete(model, asked({ reasoning_effort: 'low' }))
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion.choices[0]?.message).toMatchObject({
      content: 'Water less.',
      reasoning_content: 'Yellow from below means water.',
    })
    expect(completion.usage).toMatchObject({
      completion_tokens: thinking.completion,
      completion_tokens_details: { reasoning_tokens: thinking.reasoning },
    })

    const { chunks, error } = await stream(model, asked({ stream: true, reasoning_effort: 'low' }))
    expect(error).toBeUndefined()
    expect(faultsOfStream(chunks)).toEqual([])
    expect(textOfStream(chunks)).toBe('Water less.')
    const reasoned = chunks.flatMap(({ choices }) => choices).map(({ delta }) => delta)
    expect(reasoned.map((delta) => ('reasoning_content' in delta ? delta.reasoning_content : '')).join('')).toBe(
      'Yellow from below means water.',
    )
    expect(chunks.at(-1)?.usage).toMatchObject({
      completion_tokens: thinking.completion,
      completion_tokens_details: { reasoning_tokens: thinking.reasoning },
    })
  })

  test.each(['end', 'cut'] as const)('a stream that breaks off (%s) is a failure', async (end) => {
    const { model } = await vendorForThisTest(vendor, [replayStream(`${vendor}/cut-stream.txt`, end)])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(textOfStream(chunks)).toBe('Yellow leaves')
    expect(error).toMatchObject({ name: 'ApiError', status: 502, code: 'upstream_error' })
    expect(chunks.some(({ choices }) => choices.some((choice) => choice.finish_reason !== null))).toBe(false)
  })

  test('an error in the middle of a stream is a failure after the text', async () => {
    const { model } = await vendorForThisTest(vendor, [replayStream(`${vendor}/error-mid-stream.txt`)])
    const { chunks, error } = await stream(model, asked({ stream: true }))
    expect(textOfStream(chunks)).toBe('Yellow ')
    expect(error).toMatchObject({ name: 'ApiError', status: 502, code: 'upstream_error' })
  })

  test('several choices are several requests, and their tokens are summed', async () => {
    const { model, upstream } = await vendorForThisTest(vendor, [
      replay(`${vendor}/text.json`),
      replay(`${vendor}/text.json`),
      replayStream(`${vendor}/text-stream.txt`),
    ])
    const completion = await complete(model, asked({ n: 2 }))
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion.choices.map(({ index }) => index)).toEqual([0, 1])
    expect(completion.usage).toMatchObject({
      prompt_tokens: 2 * usage.prompt,
      completion_tokens: 2 * usage.completion,
      prompt_tokens_details: { cached_tokens: 2 * usage.cached },
    })
    expect(upstream.calls).toHaveLength(2)

    const { chunks, error } = await stream(model, asked({ stream: true, n: 3 }))
    expect(error).toBeUndefined()
    expect(faultsOfStream(chunks)).toEqual([])
    for (const index of [0, 1, 2]) expect(textOfStream(chunks, index)).toBe('Yellow leaves? 🌱 Too much water.')
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 3 * usage.prompt } })
    expect(upstream.calls).toHaveLength(5)
  })
})

describe('why an answer ended', () => {
  // platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['a_reason_of_next_year', 'stop'],
  ])('anthropic: %s is %s', async (stop_reason, expected) => {
    const { model } = await vendorForThisTest('anthropic', [replay('anthropic/text.json', { stop_reason })])
    expect((await complete(model, asked())).choices[0]?.finish_reason).toBe(expected)
  })

  // ai.google.dev/api/generate-content, FinishReason
  test.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['OTHER', 'stop'],
  ])('google: %s is %s', async (finishReason, expected) => {
    const { model } = await vendorForThisTest('google', [
      replay('google/text.json', { candidates: [{ content: { parts: [{ text: 'Yes.' }] }, finishReason, index: 0 }] }),
    ])
    expect((await complete(model, asked())).choices[0]?.finish_reason).toBe(expected)
  })

  test('google: a blocked prompt is an empty answer with content_filter', async () => {
    const { model } = await vendorForThisTest('google', [replay('google/blocked-prompt.json')])
    const completion = await complete(model, asked())
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion.choices[0]).toMatchObject({ message: { content: '' }, finish_reason: 'content_filter' })
  })

  test.each([
    ['a malformed call', { finishReason: 'MALFORMED_FUNCTION_CALL', content: { parts: [] } }],
    ['no reason and no text', { content: { parts: [] } }],
    ['another reason and no text', { finishReason: 'OTHER', content: { parts: [] } }],
  ])('google: %s is a failure, not an answer', async (_case, candidate) => {
    const { model } = await vendorForThisTest('google', [replay('google/text.json', { candidates: [candidate] })])
    await expect(complete(model, asked())).rejects.toMatchObject({ status: 502, code: 'upstream_error' })
  })
})

test('every recorded answer names the page that it was copied from', () => {
  const names = ['text', 'tool-calls', 'thinking', 'error-429', 'error-400-too-long']
  for (const name of names.flatMap((each) => [`anthropic/${each}.json`, `google/${each}.json`])) {
    expect(recorded(name).source).toMatch(/platform\.claude\.com|ai\.google\.dev/)
  }
})
