import { describe, expect, test } from 'vitest'
import { ApiError } from '../../../src/errors.ts'
import { loadTokenizer } from '../../../src/models/tokenizer.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { asking, chunksOf, completionOf, textOf, understudy } from '../../support/mallow.ts'

describe('limits', () => {
  test('max_completion_tokens and max_tokens cut by tokens', async () => {
    const tokenizer = await loadTokenizer()
    const whole = await textOf(asking('Which tea is good against a cold?'))
    for (const limit of [1, 2, 3, 5]) {
      for (const body of [{ max_tokens: limit }, { max_completion_tokens: limit, max_tokens: 1000 }]) {
        const { choices, usage } = await completionOf(asking('Which tea is good against a cold?', body))
        const text = choices[0]?.message.content ?? ''
        expect(whole.startsWith(text)).toBe(true)
        expect(tokenizer.count(text)).toBe(limit)
        expect(choices[0]?.finish_reason).toBe('length')
        expect(usage?.completion_tokens).toBe(limit)
      }
    }
    const enough = await completionOf(asking('Which tea is good against a cold?', { max_tokens: 1000 }))
    expect(enough.choices[0]?.finish_reason).toBe('stop')
  })

  test.each([
    [' and', 'Ginger, Ada,'],
    [['deal', ', '], 'Ginger'],
    [['nowhere', ''], 'Ginger, Ada, and a great deal of it.'],
  ])('stop %j', async (stop, text) => {
    const request = asking('Which tea is good against a cold?', { stop })
    expect((await completionOf(request)).choices[0]).toMatchObject({
      message: { content: text },
      finish_reason: 'stop',
    })
  })

  test('an aborted signal ends the work', async () => {
    const aborted = AbortSignal.abort()
    await expect(understudy.complete(asking('hi'), aborted)).rejects.toThrow()
    const leaving = new AbortController()
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const events of understudy.stream(asking('hi'), leaving.signal)) {
        seen.push(...events)
        leaving.abort()
      }
    })()
    await expect(reading).rejects.toThrow()
    expect(seen).toHaveLength(1)
  })
})

describe('objects', () => {
  test('a completion has every field, and counts its tokens', async () => {
    const tokenizer = await loadTokenizer()
    const messages: readonly Message[] = [
      { role: 'system', name: 'example_user', content: 'Play on.' },
      { role: 'user', content: [{ type: 'text', text: 'Whose kitten is this?' }] },
    ]
    const completion = await completionOf(asking(messages, { n: 2 }))
    const replies = completion.choices.map(({ message }) => tokenizer.count(message.content ?? ''))
    const prompt = 3 + 3 + 1 + 1 + 2 + 3 + 3 + 1 + tokenizer.count('Whose kitten is this?')
    const spent = replies.reduce((sum, tokens) => sum + tokens, 0)
    expect(completion).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'understudy',
      choices: [0, 1].map((index) => ({
        index,
        message: { role: 'assistant', content: expect.any(String), refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      })),
      usage: { prompt_tokens: prompt, completion_tokens: spent, total_tokens: prompt + spent },
    })
  })

  test('a stream begins with the role, ends with the reason, and closes with the usage', async () => {
    const request = asking('Which tea is good against a cold?', { max_tokens: 4 })
    const chunks = await chunksOf(request)
    expect(chunks[0]?.choices).toEqual([
      { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
    ])
    expect(chunks.at(-2)?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'length' }])
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: (await completionOf(request)).usage })
    expect(new Set(chunks.map(({ id, created, model, object }) => `${id}${created}${model}${object}`)).size).toBe(1)
    expect(chunks.length).toBeGreaterThan(4)
  })
})

describe('tools', () => {
  const weather = {
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'The weather of a city',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string' },
          unit: { enum: ['celsius', 'fahrenheit'] },
          hours: { type: 'integer', minimum: 1 },
        },
        required: ['city', 'unit', 'hours'],
      },
    },
  }
  const clock = { type: 'function' as const, function: { name: 'getTime' } }
  const question = 'What is the weather in New York, in Fahrenheit?'

  test('none is called unless asked for', async () => {
    for (const tool_choice of [undefined, null, 'auto', 'none'] as const) {
      const { choices } = await completionOf(asking(question, { tools: [weather], tool_choice }))
      expect(choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.any(String) } })
    }
  })

  test('a required call has arguments that fit, out of the question', async () => {
    const request = asking(question, { tools: [clock, weather], tool_choice: 'required' })
    const { choices, usage } = await completionOf(request)
    expect(choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { content: null, refusal: null } })
    const [call] = choices[0]?.message.tool_calls ?? []
    expect(call).toMatchObject({ id: expect.stringMatching(/^call_[0-9a-f]{24}$/), type: 'function' })
    expect(call?.function.name).toBe('get_weather')
    expect(JSON.parse(call?.function.arguments ?? '')).toEqual({ city: 'New York', unit: 'fahrenheit', hours: 1 })
    expect(usage?.completion_tokens).toBeGreaterThan(5)

    const calls = (await chunksOf(request)).flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
    expect(calls[0]).toEqual({
      index: 0,
      id: call?.id,
      type: 'function',
      function: { name: 'get_weather', arguments: '' },
    })
    expect(calls.map((part) => part.function?.arguments).join('')).toBe(call?.function.arguments)
  })

  test('a named one is called, a tool without parameters with none', async () => {
    const named = { type: 'function' as const, function: { name: 'getTime' } }
    const { choices } = await completionOf(asking(question, { tools: [weather, clock], tool_choice: named, n: 2 }))
    expect(choices[0]?.message.tool_calls?.[0]?.function).toEqual({ name: 'getTime', arguments: '{}' })
    expect(choices[0]?.message.tool_calls?.[0]?.id).not.toBe(choices[1]?.message.tool_calls?.[0]?.id)
  })

  test('arguments end at the most tokens', async () => {
    const { choices } = await completionOf(
      asking(question, { tools: [weather], tool_choice: 'required', max_tokens: 6 }),
    )
    expect(choices[0]?.finish_reason).toBe('length')
  })

  test.each([
    ['required' as const, []],
    ['required' as const, undefined],
    [{ type: 'function' as const, function: { name: 'missing' } }, [weather]],
  ])('tool_choice %j without it is the caller to mend', async (tool_choice, tools) => {
    const failure = await completionOf(asking(question, { tool_choice, tools })).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ApiError)
    expect(failure).toMatchObject({ status: 400, param: 'tool_choice' })
  })
})

describe('response_format', () => {
  const question = 'Which tea is good against a cold?'
  const answer = 'Ginger, Ada, and a great deal of it.'

  test('json_object', async () => {
    expect(JSON.parse(await textOf(asking(question, { response_format: { type: 'json_object' } })))).toEqual({
      reply: answer,
    })
  })

  test('json_schema: the first free text is the answer', async () => {
    const schema = {
      type: 'object',
      properties: {
        mood: { enum: ['dry', 'warm'] },
        answer: { type: 'string' },
        sources: { type: 'array', items: { type: 'string' } },
      },
      required: ['mood', 'answer', 'sources'],
      additionalProperties: false,
    }
    const text = await textOf(
      asking(question, { response_format: { type: 'json_schema', json_schema: { name: 'reply', schema } } }),
    )
    expect(JSON.parse(text)).toEqual({ mood: 'dry', answer, sources: [] })
  })
})

test('names the parameters that it does not honour', () => {
  for (const name of ['temperature', 'top_p', 'logprobs', 'presence_penalty', 'reasoning_effort']) {
    expect(understudy.ignoredParameters?.has(name)).toBe(true)
  }
  for (const name of ['seed', 'stop', 'n', 'tools', 'max_tokens', 'response_format', 'model', 'messages', 'stream']) {
    expect(understudy.ignoredParameters?.has(name)).toBe(false)
  }
})
