import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { alone, service, servicesForClientsForThisFile, upstream } from '../support/clients.ts'
import type { TestService } from '../support/service.ts'
import { chunkText, completion, json, pieces, sse } from '../support/upstream.ts'

/* Clients of the Responses API with only base URL, key and model set. test/chat/clients.characters.test.ts has more clients. */

servicesForClientsForThisFile()

const question = 'How do I know when to repot?'
const fern = { model: 'understudy', character: 'Fern' }

describe.each(['', '/v1'])('the official client with the base URL of the service and "%s"', (path) => {
  const client = (of: TestService) => new OpenAI({ baseURL: of.url + path, apiKey: of.key, maxRetries: 0 })

  test('gets a whole response with the same answer as chat', async () => {
    const chat = await client(alone).chat.completions.create({
      ...fern,
      messages: [{ role: 'user', content: question }],
    })
    const response = await client(alone).responses.create({ ...fern, input: question })
    expect(response).toMatchObject({ object: 'response', status: 'completed', store: false, error: null })
    expect(response.output_text).toBe(chat.choices[0]?.message.content)
    expect(response.usage).toMatchObject({
      input_tokens: chat.usage?.prompt_tokens,
      total_tokens: chat.usage?.total_tokens,
    })
  })

  test('assembles a stream into the same response', async () => {
    const whole = await client(alone).responses.create({ ...fern, input: question })
    const numbers: number[] = []
    const stream = client(alone).responses.stream({ ...fern, input: question })
    stream.on('event', (event) => void numbers.push(event.sequence_number))
    const gathered = await stream.finalResponse()
    expect(gathered.output_text).toBe(whole.output_text)
    expect(gathered.status).toBe('completed')
    expect(gathered.usage).toEqual(whole.usage)
    expect(numbers).toEqual(numbers.map((_number, index) => index))
  })
})

describe("the AI SDK's default, which refers to earlier items by their ids", () => {
  const model = (of: TestService, id = 'understudy') => createOpenAI({ baseURL: `${of.url}/v1`, apiKey: of.key })(id)

  test('continues the conversation in a second turn', async () => {
    upstream.answer(json(completion('Root-bound.')), json(completion('Weekly.')))
    const first = await generateText({ model: model(service, 'once'), prompt: question })
    const second = await generateText({
      model: model(service, 'once'),
      messages: [
        { role: 'user', content: question },
        ...first.response.messages,
        { role: 'user', content: 'How often do I water?' },
      ],
    })
    expect(second.text).toBe('Weekly.')
    expect(upstream.calls[1]?.body['messages']).toEqual([
      { role: 'user', content: question },
      { role: 'assistant', content: 'Root-bound.' },
      { role: 'user', content: 'How often do I water?' },
    ])
  })

  const tools = {
    moisture: tool({
      description: 'Tells how moist the soil is.',
      inputSchema: jsonSchema<{ plant: string }>({ type: 'object', properties: { plant: { type: 'string' } } }),
      execute: async ({ plant }: { plant: string }) => `${plant}: dry`,
    }),
  }
  const call = { id: 'call_1', type: 'function', function: { name: 'moisture', arguments: '{"plant":"fern"}' } }
  const asked = {
    messages: [
      { role: 'user', content: question },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'fern: dry' },
    ],
  }

  test('takes two steps with a tool', async () => {
    upstream.answer(
      json(
        completion('', {
          choices: [
            {
              index: 0,
              message: { role: 'assistant', content: null, refusal: null, tool_calls: [call] },
              logprobs: null,
              finish_reason: 'tool_calls',
            },
          ],
        }),
      ),
      json(completion('Water it.')),
    )
    const answer = await generateText({
      model: model(service, 'once'),
      prompt: question,
      tools,
      stopWhen: stepCountIs(2),
    })
    expect(answer.text).toBe('Water it.')
    expect(upstream.calls[1]?.body).toMatchObject(asked)
  })

  test('takes two steps with a tool, streamed', async () => {
    const part = (index: number, more: object) => chunkText({ tool_calls: [{ index, ...more }] })
    upstream.answer(
      pieces([
        sse(
          chunkText({ role: 'assistant', content: null }),
          part(0, { id: 'call_1', type: 'function', function: { name: 'moisture', arguments: '' } }),
          part(0, { function: { arguments: '{"plant":' } }),
          part(0, { function: { arguments: '"fern"}' } }),
          chunkText({}, 'tool_calls'),
          '[DONE]',
        ),
      ]),
      pieces([
        sse(
          chunkText({ role: 'assistant', content: 'Water ' }),
          chunkText({ content: 'it.' }),
          chunkText({}, 'stop'),
          '[DONE]',
        ),
      ]),
    )
    const answer = streamText({ model: model(service, 'once'), prompt: question, tools, stopWhen: stepCountIs(2) })
    expect(await answer.text).toBe('Water it.')
    expect(upstream.calls[1]?.body).toMatchObject(asked)
  })
})
