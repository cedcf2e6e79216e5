import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages'
import { tool as toolOfLangChain } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { APICallError, generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { alone, service, servicesForClientsForThisFile, upstream } from '../support/clients.ts'
import type { TestService } from '../support/service.ts'
import { chunkText, json, pieces } from '../support/upstream.ts'

servicesForClientsForThisFile()

const prompt = 'How do I know when to repot?'
const weather = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const }, days: { type: 'integer' as const, minimum: 1 } },
  required: ['city', 'days'],
}

async function thrownBy(call: () => PromiseLike<unknown>): Promise<unknown> {
  try {
    await call()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

interface Refusal {
  readonly what: string
  readonly status: number
  readonly message: RegExp
  readonly model: string
  readonly key?: string
  readonly of: () => TestService
  readonly upstream?: Parameters<typeof json>
}
const refusals: readonly Refusal[] = [
  { what: 'a wrong key', status: 401, message: /key/i, model: 'understudy', key: 'sk-wrong', of: () => alone },
  { what: 'an unknown model', status: 404, message: /understudy/, model: 'gpt-x', of: () => alone },
  { what: '429', status: 429, message: /later/, model: 'm', of: () => service, upstream: [{ error: {} }, 429] },
  { what: '500', status: 502, message: /failed/, model: 'm', of: () => service, upstream: [{ error: {} }, 500] },
]

const breakOff = () => upstream.answer(pieces([`data: ${chunkText({ role: 'assistant', content: 'One' })}\n\n`]))

describe.each(['', '/v1'])('the Vercel AI SDK at "%s"', (path) => {
  const modelOf = (model = 'understudy', of = alone, apiKey = of.key) =>
    createOpenAICompatible({
      name: 'conservatory',
      baseURL: of.url + path,
      apiKey,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(model)

  test('generates a text', async () => {
    const { text, finishReason, usage, response } = await generateText({
      model: modelOf(),
      prompt,
      providerOptions: { conservatory: { character: 'Fern' } },
    })
    expect(text).toMatch(/root/i)
    expect(finishReason).toBe('stop')
    expect(usage.inputTokens).toBeGreaterThan(100)
    expect(usage.outputTokens).toBeGreaterThan(0)
    expect(response.headers?.['x-character']).toMatch(/^Fern@sha256:/)
  })

  test('streams the same text', async () => {
    const asked = { model: modelOf(), prompt, providerOptions: { conservatory: { character: 'Fern' } } }
    const whole = await generateText(asked)
    const streamed = streamText(asked)
    const words: string[] = []
    for await (const word of streamed.textStream) words.push(word)
    expect(words.length).toBeGreaterThan(3)
    expect(words.join('')).toBe(whole.text)
    expect(await streamed.finishReason).toBe('stop')
    expect((await streamed.usage).outputTokens).toBe(whole.usage.outputTokens)
  })

  test.each([false, true])('runs a tool that the model calls, and returns its result (stream: %s)', async (stream) => {
    const cities: unknown[] = []
    const tools = {
      weather: tool({
        description: 'The weather of a city',
        inputSchema: jsonSchema<{ city: string; days: number }>(weather),
        execute: async (input) => {
          cities.push(input)
          return { sunny: true }
        },
      }),
    }
    const asked = { model: modelOf(), prompt: 'Will it rain in Oslo?', tools, toolChoice: 'required' as const }
    const { toolCalls, toolResults, finishReason } = stream ? streamText(asked) : await generateText(asked)
    expect(await finishReason).toBe('tool-calls')
    expect(await toolCalls).toMatchObject([
      { toolName: 'weather', input: { city: expect.any(String), days: expect.any(Number) } },
    ])
    expect(await toolResults).toMatchObject([{ toolName: 'weather', output: { sunny: true } }])
    expect(cities).toHaveLength(1)
  })

  test.each(refusals)('throws an APICallError with the status for $what', async (refusal) => {
    if (refusal.upstream) upstream.answer(json(...refusal.upstream))
    const of = refusal.of()
    const model = modelOf(refusal.model, of, refusal.key ?? of.key)
    const whole = await thrownBy(() => generateText({ model, prompt, maxRetries: 0 }))
    const errors: unknown[] = []
    const streamed = streamText({ model, prompt, maxRetries: 0, onError: ({ error }) => void errors.push(error) })
    await thrownBy(() => streamed.text)
    expect(errors).toHaveLength(1)
    for (const error of [whole, ...errors]) {
      if (!APICallError.isInstance(error)) throw new Error('not an APICallError', { cause: error })
      expect(error.statusCode).toBe(refusal.status)
      expect(error.message).toMatch(refusal.message)
    }
  })

  test('reports a stream that breaks off, after its partial text', async () => {
    breakOff()
    const errors: unknown[] = []
    const streamed = streamText({
      model: modelOf('m', service),
      prompt,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    })
    let text = ''
    for await (const part of streamed.stream) if (part.type === 'text-delta') text += part.text
    expect(text).toBe('One')
    expect(errors).toHaveLength(1)
    expect(JSON.stringify(errors[0]) + String(errors[0])).toMatch(/broke off/)
    expect(upstream.calls).toHaveLength(1)
  })
})

describe.each(['', '/v1'])('LangChain at "%s"', (path) => {
  const modelOf = (model = 'understudy', of = alone, apiKey = of.key) =>
    new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL: of.url + path } })
  const messages = [new SystemMessage('Be brief.'), new HumanMessage(prompt)]

  test('gets an answer', async () => {
    const answer = await modelOf().invoke(messages)
    expect(answer.text).toMatch(/\S/)
    expect(answer.response_metadata['finish_reason']).toBe('stop')
    expect(answer.usage_metadata?.total_tokens).toBeGreaterThan(0)
  })

  test('streams the same text', async () => {
    const whole = await modelOf().invoke(messages)
    let text = ''
    let tokens = 0
    for await (const chunk of await modelOf().stream(messages)) {
      text += chunk.text
      tokens += chunk.usage_metadata?.total_tokens ?? 0
    }
    expect(text).toBe(whole.text)
    expect(tokens).toBe(whole.usage_metadata?.total_tokens)
  })

  test('gets the call of a bound tool, whole and streamed, and an answer to its result', async () => {
    const forecast = toolOfLangChain(() => 'sunny', { name: 'weather', description: 'The weather', schema: weather })
    const bound = modelOf().bindTools([forecast], { tool_choice: 'weather' })
    const question = new HumanMessage('Will it rain in Oslo?')
    const answer = await bound.invoke([question])
    const [call] = answer.tool_calls ?? []
    expect(call).toMatchObject({ name: 'weather', args: { city: expect.any(String), days: expect.any(Number) } })

    const stream = await bound.stream([question])
    let id = ''
    let args = ''
    for await (const chunk of stream) {
      for (const piece of chunk.tool_call_chunks ?? []) {
        id += piece.id ?? ''
        args += piece.args ?? ''
      }
    }
    expect(id).toMatch(/\S/)
    expect(JSON.parse(args)).toEqual(call?.args)

    const result = new ToolMessage({ tool_call_id: call?.id ?? '', content: 'It will be sunny in Oslo.' })
    const said = await modelOf().invoke([
      question,
      new AIMessage({ content: '', tool_calls: answer.tool_calls ?? [] }),
      result,
    ])
    expect(said.text).toContain('sunny')
  })

  test.each(refusals)('throws an error with the status for $what', async (refusal) => {
    if (refusal.upstream) upstream.answer(json(...refusal.upstream))
    const of = refusal.of()
    const model = modelOf(refusal.model, of, refusal.key ?? of.key)
    for (const call of [() => model.invoke(messages), () => model.stream(messages)]) {
      const error = await thrownBy(call)
      expect(error).toMatchObject({ status: refusal.status })
      expect(String(error)).toMatch(refusal.message)
    }
  })

  test('reports a stream that breaks off, after its partial text', async () => {
    breakOff()
    let text = ''
    const error = await thrownBy(async () => {
      for await (const chunk of await modelOf('m', service).stream(messages)) text += chunk.text
    })
    expect(text).toBe('One')
    expect(String(error)).toMatch(/broke off/)
  })
})

test('the official client assembles streamed tool calls, and parses an answer with a JSON schema', async () => {
  const client = new OpenAI({ baseURL: alone.url, apiKey: alone.key, maxRetries: 0 })
  const asked = { model: 'understudy', messages: [{ role: 'user' as const, content: 'Will it rain in Oslo?' }] }
  const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: weather } }]
  const gathered = await client.chat.completions
    .stream({ ...asked, tools, tool_choice: 'required' })
    .finalChatCompletion()
  const [call] = gathered.choices[0]?.message.tool_calls ?? []
  expect(gathered.choices[0]?.finish_reason).toBe('tool_calls')
  expect(JSON.parse(call?.type === 'function' ? call.function.arguments : '')).toStrictEqual({
    city: expect.any(String),
    days: expect.any(Number),
  })
  const { choices } = await client.chat.completions.parse({
    ...asked,
    response_format: { type: 'json_schema', json_schema: { name: 'weather', strict: true, schema: weather } },
  })
  expect(JSON.parse(choices[0]?.message.content ?? '')).toMatchObject({ days: expect.any(Number) })
})
