import { onTestFinished } from 'vitest'
import { ApiError } from '../../src/errors.ts'
import { type AiSdkModel, createAiSdkModel } from '../../src/models/ai-sdk/model.ts'
import type { AiSdkSettings } from '../../src/models/configuration/settings.ts'
import type { ModelRequest } from '../../src/models/model.ts'
import type { Chunk } from '../../src/openai/completion.ts'
import type { CompletionRequest, Message } from '../../src/openai/completion-request.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { chunksIn } from './chat.ts'
import { type Script, type ScriptedUpstream, upstreamForThisTest } from './upstream.ts'

export type Vendor = 'anthropic' | 'google'

/** The key of the provider. No reply, error message or cause of an error may contain it. */
export const canaryKey = 'canary-key-1234567890'

const models: Record<Vendor, string> = { anthropic: 'claude-sonnet-4-5', google: 'gemini-2.5-flash' }

/** Opens a model of an installed provider package, whose upstream is a scripted server, for the running test. */
export async function vendorForThisTest(
  vendor: Vendor,
  scripts: readonly Script[],
  settings: Partial<AiSdkSettings> = {},
): Promise<{ readonly model: AiSdkModel; readonly upstream: ScriptedUpstream }> {
  const upstream = await upstreamForThisTest(...scripts)
  const model = createAiSdkModel({
    adapter: `@ai-sdk/${vendor}`,
    model: models[vendor],
    apiKey: canaryKey,
    baseUrl: upstream.url,
    ...settings,
  })
  onTestFinished(() => model.close())
  return { model, upstream }
}

/** A request like those of the chat routes. */
export function asked(more: Partial<CompletionRequest> = {}, onIgnored?: (parameter: string) => void): ModelRequest {
  return {
    body: { model: 'claude', messages: [{ role: 'user', content: 'Why are my leaves yellow?' }], ...more },
    persona: { name: null, card: null, userName: 'User' },
    work: workAtOnce(),
    ...(onIgnored && { onIgnored }),
  }
}

/** The tools of the recorded tool calls. */
export const gardenTools: CompletionRequest['tools'] = [
  {
    type: 'function',
    function: {
      name: 'soil_moisture',
      description: 'How wet a bed is.',
      parameters: { type: 'object', properties: { bed: { type: 'string' } }, required: ['bed'] },
    },
  },
  { type: 'function', function: { name: 'all_beds' } },
]

/** A conversation with two tool calls, whose results are in the reverse order. */
export const toolTurn: Message[] = [
  { role: 'user', content: 'Which bed is dry?' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [
      { id: 'call_a', type: 'function', function: { name: 'soil_moisture', arguments: '{"bed":"north"}' } },
      { id: 'call_b', type: 'function', function: { name: 'all_beds', arguments: '' } },
    ],
  },
  { role: 'tool', tool_call_id: 'call_b', content: '["north","south"]' },
  { role: 'tool', tool_call_id: 'call_a', content: [{ type: 'text', text: 'dry' }] },
]

/** A picture of one dot, PNG in base64. */
export const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export const never = new AbortController().signal

/** Requests a whole answer. */
export async function complete(model: AiSdkModel, request: ModelRequest, signal = never) {
  return (await model.complete(request, signal)).completion
}

/** Requests a streamed answer. @returns all chunks, and the error that ended the stream, or undefined */
export async function stream(model: AiSdkModel, request: ModelRequest, signal = never) {
  const chunks: Chunk[] = []
  try {
    for await (const group of model.stream(request, signal)) chunks.push(...chunksIn(group))
  } catch (error) {
    return { chunks, error }
  }
  return { chunks, error: undefined }
}

/** The texts of one choice of a stream, joined. */
export function textOfStream(chunks: readonly Chunk[], index = 0): string {
  return chunks
    .flatMap(({ choices }) => choices)
    .map((choice) => (choice.index === index ? (choice.delta.content ?? '') : ''))
    .join('')
}

/** The `ApiError` that a promise is rejected with. */
export async function failureFrom(promise: Promise<unknown>): Promise<ApiError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof ApiError) return error
  throw new Error(`This is not an ApiError: ${String(error)}`)
}
