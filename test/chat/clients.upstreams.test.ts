import { createOpenAI } from '@ai-sdk/openai'
import type { AIMessageChunk } from '@langchain/core/messages'
import { ChatOpenAI } from '@langchain/openai'
import { generateText, jsonSchema, streamText, tool } from 'ai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { service, servicesForClientsForThisFile, upstream } from '../support/clients.ts'
import type { Meaning } from '../support/meaning.ts'
import { answered, begun, calling, events, hi, oddAnswers, over, piece } from '../support/odd-answers.ts'

/* Official clients in front of an upstream that misbehaves: what they yield is what the upstream meant. */

servicesForClientsForThisFile()

const prompt = 'Hello'
const schema = { type: 'object' as const, properties: {} }
const functions = ['f', 'g']

/** What a client understands: a text and calls; it throws for a failure. */
type Ask = () => Promise<{
  readonly text: string
  readonly calls: readonly (readonly [name: string, input: unknown])[]
}>

const official = () => new OpenAI({ baseURL: service.url, apiKey: service.key, maxRetries: 0 })
const chatTools = functions.map((name) => ({ type: 'function' as const, function: { name, parameters: schema } }))
const asked = { model: 'm', messages: [{ role: 'user' as const, content: prompt }], tools: chatTools }

function readMessage({ content, tool_calls: calls = [] }: OpenAI.ChatCompletionMessage) {
  return {
    text: content ?? '',
    calls: calls.flatMap((call) =>
      call.type === 'function' ? [[call.function.name, JSON.parse(call.function.arguments)] as const] : [],
    ),
  }
}

const respond = {
  model: 'm',
  input: prompt,
  tools: functions.map((name) => ({ type: 'function' as const, name, parameters: schema, strict: false })),
}

function readResponse({ status, output, output_text: text }: OpenAI.Responses.Response) {
  if (status !== 'completed') throw new Error(status)
  return {
    text,
    calls: output.flatMap((item) =>
      item.type === 'function_call' ? [[item.name, JSON.parse(item.arguments)] as const] : [],
    ),
  }
}

const sdkTools = Object.fromEntries(
  functions.map((name) => [name, tool({ inputSchema: jsonSchema<unknown>({}), description: name })]),
)
const sdk = () => createOpenAI({ baseURL: service.url, apiKey: service.key })
type SdkCalls = readonly { readonly toolName: string; readonly input: unknown }[]
const callsOfSdk = (calls: SdkCalls) => calls.map(({ toolName, input }) => [toolName, input] as const)

function sdkAsks(model: () => Parameters<typeof generateText>[0]['model']): readonly Ask[] {
  const request = () => ({ model: model(), prompt, tools: sdkTools, maxRetries: 0 })
  return [
    async () => {
      const { text, toolCalls } = await generateText(request())
      return { text, calls: callsOfSdk(toolCalls) }
    },
    async () => {
      let failure: unknown
      const streamed = streamText({
        ...request(),
        onError: ({ error }) => {
          failure = error
        },
      })
      let text = ''
      for await (const word of streamed.textStream) text += word
      if (failure) throw failure
      return { text, calls: callsOfSdk(await streamed.toolCalls) }
    },
  ]
}

const chain = () =>
  new ChatOpenAI({ model: 'm', apiKey: service.key, maxRetries: 0, configuration: { baseURL: service.url } }).bindTools(
    chatTools,
  )
const readChain = ({ text, tool_calls: calls = [] }: Pick<AIMessageChunk, 'text' | 'tool_calls'>) => ({
  text,
  calls: calls.map(({ name, args }) => [name, args] as const),
})

const [sdkChat, sdkChatStream] = sdkAsks(() => sdk().chat('m'))
const [sdkResponse, sdkResponseStream] = sdkAsks(() => sdk()('m'))
const clients: readonly (readonly [name: string, ask: Ask | undefined])[] = [
  [
    'openai, chat',
    async () => {
      const { choices } = await official().chat.completions.create(asked)
      const [choice] = choices
      if (!choice) throw new Error('no choice')
      return readMessage(choice.message)
    },
  ],
  [
    'openai, streamed chat',
    async () => {
      const { choices } = await official().chat.completions.stream(asked).finalChatCompletion()
      const [choice] = choices
      if (!choice) throw new Error('no choice')
      return readMessage(choice.message)
    },
  ],
  ['openai, response', async () => readResponse(await official().responses.create(respond))],
  ['openai, streamed response', async () => readResponse(await official().responses.stream(respond).finalResponse())],
  ['AI SDK, chat', sdkChat],
  ['AI SDK, streamed chat', sdkChatStream],
  ['AI SDK, response', sdkResponse],
  ['AI SDK, streamed response', sdkResponseStream],
  ['LangChain', async () => readChain(await chain().invoke(prompt))],
  [
    'LangChain, streamed',
    async () => {
      let all: AIMessageChunk | undefined
      for await (const each of await chain().stream(prompt)) all = all ? all.concat(each) : each
      if (!all) throw new Error('no chunk')
      return readChain(all)
    },
  ],
]

/** The calls of a meaning, with parsed arguments. */
const callsOf = ({ calls }: Meaning) =>
  calls.map((call) => [call.slice(0, call.indexOf(' ')), JSON.parse(call.slice(call.indexOf(' ')))])

/** The AI SDK and LangChain read only objects as the arguments of a call. */
const readable = oddAnswers.filter(([, , { calls }]) => !calls.some((call) => call.endsWith('[]')))

describe.each(clients)('%s', (_name, ask) => {
  test.each(readable)('%s', async (_what, script, meaning) => {
    upstream.answer(script)
    const got = await ask?.().catch(() => undefined)
    expect(got).toEqual(meaning.isSuccess ? { text: meaning.text, calls: callsOf(meaning) } : undefined)
    expect(upstream.calls).toHaveLength(1)
  })
})

test.each([false, true])(
  'a tool loop gets each call once, and returns its result by its id (stream: %s)',
  async (stream) => {
    const twice = answered(calling(piece(0, 'a', 'f', '{}')), calling(piece(0, undefined, 'g', '{"n":1}')))
    upstream.answer(twice, events('', begun, hi, over))
    const seen: unknown[] = []
    const tools = functions.map((name) => ({
      type: 'function' as const,
      function: {
        name,
        description: name,
        parameters: schema,
        parse: JSON.parse,
        function: (input: unknown) => {
          seen.push([name, input])
          return `${name} done`
        },
      },
    }))
    const client = official().chat.completions
    const loop = stream ? client.runTools({ ...asked, tools, stream: true }) : client.runTools({ ...asked, tools })
    expect(await loop.finalContent()).toBe('Hi')
    expect(seen).toEqual([
      ['f', {}],
      ['g', { n: 1 }],
    ])
    const sent: readonly { role: string; tool_call_id?: string; content: unknown; tool_calls?: { id: string }[] }[] =
      JSON.parse(upstream.calls[1]?.text ?? '').messages
    const results = sent.filter(({ role }) => role === 'tool')
    expect(results.map(({ content }) => content)).toEqual(['f done', 'g done'])
    expect(results.map(({ tool_call_id: id }) => id)).toEqual(sent[1]?.tool_calls?.map(({ id }) => id))
  },
)
