import { describe, expect, test } from 'vitest'
import { ApiError } from '../../../src/errors.ts'
import { loadTokenizer } from '../../../src/models/tokenizer.ts'
import { toolToCall } from '../../../src/models/understudy/tool-call.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { asking, chunksOf, completionOf, textOf, understudy } from '../../support/mallow.ts'
import { unitsOf } from '../../support/units.ts'

describe('limits', () => {
  test('max_completion_tokens and max_tokens cut the reply', async () => {
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
  ])('the reply ends before the stop sequence: %j', async (stop, text) => {
    const request = asking('Which tea is good against a cold?', { stop })
    expect((await completionOf(request)).choices[0]).toMatchObject({
      message: { content: text },
      finish_reason: 'stop',
    })
  })

  test('an aborted signal ends the work', async () => {
    const aborted = AbortSignal.abort()
    await expect(understudy.complete(asking('hi'), aborted)).rejects.toThrow()
    await expect(understudy.stream(asking('hi'), aborted)[Symbol.asyncIterator]().next()).rejects.toThrow()
  })
})

describe('the shape of a reply', () => {
  test('a completion has every field, and the number of its tokens', async () => {
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

  test('a stream has the role first, then the text, the finish reason, and the usage', async () => {
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

  const modelDecides = [undefined, null, 'auto'] as const

  test('no tool is called unless the request requires it or the user names it', async () => {
    for (const tool_choice of [...modelDecides, 'none'] as const) {
      const { choices } = await completionOf(asking(question, { tools: [weather], tool_choice }))
      expect(choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: expect.any(String) } })
    }
  })

  /** The name of the tool that the understudy calls; by default without `tool_choice`. */
  const calledFor = async (text: string, names: readonly string[], more: Parameters<typeof asking>[1] = {}) => {
    const tools = names.map((name) => ({ type: 'function' as const, function: { name } }))
    const { choices } = await completionOf(asking(text, { tools, ...more }))
    return choices[0]?.message.tool_calls?.[0]?.function.name
  }

  test.each(modelDecides)('a tool that the user names is called, tool_choice %s', async (tool_choice) => {
    const request = asking('Please get weather of Oslo.', { tools: [clock, weather], tool_choice })
    const { choices } = await completionOf(request)
    expect(choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } })
    expect(JSON.parse(choices[0]?.message.tool_calls?.[0]?.function.arguments ?? '')).toMatchObject({ city: 'Oslo' })
    const calls = (await chunksOf(request)).flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
    expect(calls[0]?.function?.name).toBe('get_weather')
  })

  test.each([
    ['Call get_weather', 'get_weather'],
    ['GET WEATHER!', 'get_weather'],
    ['What does "Get_Weather" say?', 'get_weather'],
    ['get\n  weather', 'get_weather'],
    ['What does getTime say?', 'getTime'],
    ['Ask get-news for news.', 'get-news'],
    [`get_weather for this: ${'data '.repeat(10_000)}`, 'get_weather'],
  ])('a tool’s name is found in %j', async (text, name) => {
    expect(await calledFor(text, ['getTime', 'get-news', 'get_weather'])).toBe(name)
  })

  test.each([
    'What is the weather?',
    'Forget weather.',
    'get weathered',
    'It is hard to get. Weather is not.',
    'get the weather',
    'get time',
    'get news',
    '',
  ])('no tool’s name is found in %j', async (text) => {
    expect(await calledFor(text, ['getTime', 'get-news', 'get_weather', '_'])).toBeUndefined()
  })

  test.each(['\ufdfa', 'a.b_c ', 'a'])('each of 90,000 letters that may name a tool costs work: %j', (piece) => {
    const messages = [{ role: 'user' as const, content: `get_weather ${piece.repeat(90_000 / piece.length)}` }]
    const tools = { functions: [clock.function, weather.function], choice: undefined }
    expect(toolToCall(tools, messages, '')).toBe(weather.function)
    expect(unitsOf(() => toolToCall(tools, messages, ''))).toBeGreaterThan(90_000)
  })

  test('of several named tools, the one with the longest name is called', async () => {
    expect(await calledFor('the weather forecast', ['weather', 'weather_forecast', 'forecast'])).toBe(
      'weather_forecast',
    )
  })

  test('a tool that only an earlier message names, or that must not be called, is not called', async () => {
    const earlier: readonly Message[] = [
      { role: 'user', content: 'get_weather' },
      { role: 'assistant', content: 'No.' },
      { role: 'user', content: 'Why?' },
    ]
    const { choices } = await completionOf(asking(earlier, { tools: [weather] }))
    expect(choices[0]?.finish_reason).toBe('stop')
    expect(await calledFor('get_weather', ['get_weather'], { tool_choice: 'none' })).toBeUndefined()
  })

  test('the result of a tool is reported, even if system messages follow; a tool that is named again is called again', async () => {
    const asked: readonly Message[] = [{ role: 'user', content: 'Call get_weather.' }]
    const [call] = (await completionOf(asking(asked, { tools: [weather] }))).choices[0]?.message.tool_calls ?? []
    if (!call) throw new Error('nothing was called')
    const answered: readonly Message[] = [
      ...asked,
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: call.id, content: 'It is sunny.' },
    ]
    for (const behind of [[], [{ role: 'system' as const, content: 'Stay in character.' }]]) {
      const { choices } = await completionOf(asking([...answered, ...behind], { tools: [weather] }))
      expect(choices[0]).toMatchObject({
        finish_reason: 'stop',
        message: { content: 'Here is what came back: It is sunny.' },
      })
    }
    const again = [...answered, { role: 'user' as const, content: 'And get weather for tomorrow.' }]
    expect((await completionOf(asking(again, { tools: [weather] }))).choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('a required call has fitting arguments from the question', async () => {
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

  test('the error shows only the beginning of a long name', async () => {
    const tool_choice = { type: 'function' as const, function: { name: `get ${'x'.repeat(100_000)}` } }
    const failure = completionOf(asking(question, { tool_choice, tools: [weather] }))
    await expect(failure).rejects.toThrow(/names the tool "get x{124}…", which is not in "tools"/)
  })

  test('the tool of tool_choice is called, without arguments if it has no parameters', async () => {
    const named = { type: 'function' as const, function: { name: 'getTime' } }
    const { choices } = await completionOf(asking(question, { tools: [weather, clock], tool_choice: named, n: 2 }))
    expect(choices[0]?.message.tool_calls?.[0]?.function).toEqual({ name: 'getTime', arguments: '{}' })
    expect(choices[0]?.message.tool_calls?.[0]?.id).not.toBe(choices[1]?.message.tool_calls?.[0]?.id)
  })

  test('arguments are cut at the maximum tokens', async () => {
    const { choices } = await completionOf(
      asking(question, { tools: [weather], tool_choice: 'required', max_tokens: 6 }),
    )
    expect(choices[0]?.finish_reason).toBe('length')
  })

  test.each([
    ['required' as const, []],
    ['required' as const, undefined],
    [{ type: 'function' as const, function: { name: 'missing' } }, [weather]],
  ])('tool_choice %j without such a tool is a 400', async (tool_choice, tools) => {
    const failure = await completionOf(asking(question, { tool_choice, tools })).catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(ApiError)
    expect(failure).toMatchObject({ status: 400, param: 'tool_choice' })
  })
})

describe('response_format', () => {
  const question = 'Which tea is good against a cold?'
  const answer = 'Ginger, Ada, and a great deal of it.'

  test('json_object: the reply is a field of an object', async () => {
    expect(JSON.parse(await textOf(asking(question, { response_format: { type: 'json_object' } })))).toEqual({
      reply: answer,
    })
  })

  test('json_schema: the first free text is the reply', async () => {
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

test('the understudy names the parameters that it does not honour', () => {
  for (const name of ['temperature', 'top_p', 'logprobs', 'presence_penalty', 'reasoning_effort']) {
    expect(understudy.ignoredParameters?.has(name)).toBe(true)
  }
  for (const name of ['seed', 'stop', 'n', 'tools', 'max_tokens', 'response_format', 'model', 'messages', 'stream']) {
    expect(understudy.ignoredParameters?.has(name)).toBe(false)
  }
})
