import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { AIMessage, type AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, jsonSchema, type LanguageModel, type ModelMessage, stepCountIs, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readCompletion } from '../support/chat.ts'
import { startTestService, type TestService } from '../support/service.ts'

/* Each client sets only the base URL, the key and the id of a model, and talks to Fern. */

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

const model = 'character/Fern'
const place = () => ({ baseURL: `${service.url}/v1`, apiKey: service.key })
const questions = ['How do I know when to repot?', 'And how often do I water then?'] as const
const order = 'Check the soil moisture of the south bed.'
const soilMoisture = {
  name: 'soil_moisture',
  description: 'How moist the soil of a bed is.',
  parameters: {
    type: 'object' as const,
    properties: { bed: { type: 'string' as const, enum: ['north', 'south'] } },
    required: ['bed'],
    additionalProperties: false as const,
  },
}
const moisture = ({ bed }: { bed: string }) => `${bed}: 12 %, dry`
const told = 'Here is what came back: south: 12 %, dry'

/** A client's conversation: the answers to two questions in sequence. */
type Converse = (stream: boolean) => Promise<readonly string[]>

interface Client {
  readonly name: string
  readonly converse: Converse
  /** Sends `order`, and calls `moisture` when the model calls the tool. @returns the final answer */
  readonly loop: (stream: boolean) => Promise<string>
}

const official: Client = {
  name: "the official client's chat completions",
  async converse(stream) {
    const client = new OpenAI(place())
    const messages: OpenAI.ChatCompletionMessageParam[] = []
    for (const content of questions) {
      messages.push({ role: 'user', content })
      const { choices } = stream
        ? await client.chat.completions.stream({ model, messages }).finalChatCompletion()
        : await client.chat.completions.create({ model, messages })
      messages.push({ role: 'assistant', content: choices[0]?.message.content ?? '' })
    }
    return messages.filter(({ role }) => role === 'assistant').map(({ content }) => String(content))
  },
  async loop(stream) {
    const parse = (text: string): { bed: string } => JSON.parse(text)
    const asked = {
      model,
      messages: [{ role: 'user' as const, content: order }],
      tools: [{ type: 'function' as const, function: { ...soilMoisture, function: moisture, parse } }],
    }
    const { completions } = new OpenAI(place()).chat
    const runner = stream ? completions.runTools({ ...asked, stream: true }) : completions.runTools(asked)
    return (await runner.finalContent()) ?? ''
  },
}

const responses: Client = {
  name: "the official client's responses",
  async converse(stream) {
    const client = new OpenAI(place())
    const input: OpenAI.Responses.ResponseInputItem[] = []
    const answers: string[] = []
    for (const content of questions) {
      input.push({ role: 'user', content })
      const { output, output_text } = stream
        ? await client.responses.stream({ model, input }).finalResponse()
        : await client.responses.create({ model, input })
      for (const item of output) if (item.type === 'message') input.push(item)
      answers.push(output_text)
    }
    return answers
  },
  async loop(stream) {
    const client = new OpenAI(place())
    const tools = [{ type: 'function' as const, strict: true, ...soilMoisture }]
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: order }]
    const ask = async () =>
      stream
        ? await client.responses.stream({ model, input, tools }).finalResponse()
        : await client.responses.create({ model, input, tools })
    for (const item of (await ask()).output) {
      if (item.type !== 'function_call') continue
      const { call_id, name, arguments: given } = item
      input.push({ type: 'function_call', call_id, name, arguments: given })
      input.push({ type: 'function_call_output', call_id, output: moisture(JSON.parse(given)) })
    }
    return (await ask()).output_text
  },
}

/** The AI SDK with a model of one of its providers. */
function aiSdk(name: string, modelOf: () => LanguageModel): Client {
  const tools = {
    soil_moisture: tool({
      description: soilMoisture.description,
      inputSchema: jsonSchema<{ bed: string }>(soilMoisture.parameters),
      execute: async (input) => moisture(input),
    }),
  }
  return {
    name,
    async converse(stream) {
      const messages: ModelMessage[] = []
      const answers: string[] = []
      for (const content of questions) {
        messages.push({ role: 'user', content })
        const asked = { model: modelOf(), messages }
        const answer = stream ? streamText(asked) : await generateText(asked)
        answers.push(await answer.text)
        messages.push(...(await answer.response).messages)
      }
      return answers
    },
    async loop(stream) {
      const asked = { model: modelOf(), prompt: order, tools, stopWhen: stepCountIs(2) }
      const answer = stream ? streamText(asked) : await generateText(asked)
      expect(await answer.steps).toHaveLength(2)
      return answer.text
    },
  }
}

function langChain(name: string, more: { readonly useResponsesApi?: boolean }): Client {
  const chat = () => {
    const { baseURL, apiKey } = place()
    return new ChatOpenAI({ model, apiKey, configuration: { baseURL }, ...more })
  }
  const ask = async (bound: Pick<ChatOpenAI, 'invoke' | 'stream'>, messages: BaseMessage[], stream: boolean) => {
    if (!stream) return bound.invoke(messages)
    let whole: AIMessageChunk | undefined
    for await (const chunk of await bound.stream(messages)) whole = whole ? whole.concat(chunk) : chunk
    if (!whole) throw new Error('nothing was said')
    return whole
  }
  return {
    name,
    async converse(stream) {
      const messages: BaseMessage[] = []
      for (const question of questions) {
        messages.push(new HumanMessage(question))
        messages.push(await ask(chat(), messages, stream))
      }
      return messages.filter((message) => AIMessage.isInstance(message)).map(({ text }) => text)
    },
    async loop(stream) {
      const bound = chat().bindTools([{ type: 'function', function: soilMoisture }])
      const messages: BaseMessage[] = [new HumanMessage(order)]
      const first = await ask(bound, messages, stream)
      messages.push(first)
      for (const { id = '', args } of first.tool_calls ?? []) {
        messages.push(new ToolMessage({ tool_call_id: id, content: moisture({ bed: String(args['bed']) }) }))
      }
      return (await ask(bound, messages, stream)).text
    },
  }
}

const clients: readonly Client[] = [
  official,
  responses,
  aiSdk("the AI SDK's default", () => createOpenAI(place())(model)),
  aiSdk("the AI SDK's chat", () => createOpenAI(place()).chat(model)),
  aiSdk('the AI SDK for compatible services', () =>
    createOpenAICompatible({ name: 'conservatory', ...place() })(model),
  ),
  langChain('LangChain', {}),
  langChain('LangChain with useResponsesApi', { useResponsesApi: true }),
]

describe.each(clients)('$name', ({ converse, loop }) => {
  test.each([false, true])(
    'gets the same answers in two turns as requests with the field character (stream: %s)',
    async (stream) => {
      const answers = await converse(stream)
      const messages: object[] = []
      for (const [index, content] of questions.entries()) {
        messages.push({ role: 'user', content })
        const body = { model: 'understudy', character: 'Fern', messages }
        const { choices } = await readCompletion(await service.request('/chat/completions', { json: body }))
        expect(answers[index]).toBe(choices[0]?.message.content)
        messages.push({ role: 'assistant', content: answers[index] })
      }
      expect(answers).toHaveLength(2)
    },
  )

  test.each([false, true])(
    'runs the tool that the user names, and gets an answer with its result (stream: %s)',
    async (stream) => {
      expect(await loop(stream)).toBe(told)
    },
  )
})
