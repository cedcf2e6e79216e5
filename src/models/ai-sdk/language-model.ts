import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3Message,
  LanguageModelV3Prompt,
  LanguageModelV3StreamPart,
  LanguageModelV3ToolResultOutput,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4GenerateResult,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolResultOutput,
} from '@ai-sdk/provider'

/*
 * The AI SDK's language model interface (package @ai-sdk/provider, `language-model/v4` and `language-model/v3`). Providers of the
 * AI SDK's current major version implement v4, and providers of the previous major version implement v3. v3 has another form of
 * files, and no call option `reasoning`.
 */

/** A piece of a whole answer. */
export type Content = LanguageModelV4Content | LanguageModelV3Content

/** A piece of a streamed answer. */
export type StreamPart = LanguageModelV4StreamPart | LanguageModelV3StreamPart

export type CallOptions = LanguageModelV4CallOptions

/** The parts of a whole answer that are read here. */
export interface GenerateResult
  extends Pick<
    LanguageModelV4GenerateResult,
    'finishReason' | 'usage' | 'warnings' | 'response' | 'structuredOutputText'
  > {
  readonly content: readonly Content[]
}

/** A provider's model, whichever version it implements. */
export interface LanguageModel {
  /** Whether the model takes the call option `reasoning`, the translation of `reasoning_effort`. */
  readonly takesReasoning: boolean
  readonly supportedUrls: LanguageModelV4['supportedUrls']
  generate(options: CallOptions): PromiseLike<GenerateResult>
  stream(options: CallOptions): PromiseLike<{ readonly stream: ReadableStream<StreamPart> }>
}

/** Wraps a provider's model; undefined for a value that implements neither v4 nor v3. */
export function toLanguageModel(value: unknown): LanguageModel | undefined {
  if (isV4(value)) {
    return {
      takesReasoning: true,
      get supportedUrls() {
        return value.supportedUrls
      },
      generate: (options) => value.doGenerate(options),
      stream: (options) => value.doStream(options),
    }
  }
  if (isV3(value)) {
    return {
      takesReasoning: false,
      get supportedUrls() {
        return value.supportedUrls
      },
      generate: (options) => value.doGenerate(toV3(options)),
      stream: (options) => value.doStream(toV3(options)),
    }
  }
  return undefined
}

function isV4(value: unknown): value is LanguageModelV4 {
  return hasMethods(value) && value.specificationVersion === 'v4'
}

function isV3(value: unknown): value is LanguageModelV3 {
  return hasMethods(value) && value.specificationVersion === 'v3'
}

function hasMethods(value: unknown): value is { specificationVersion: unknown } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'specificationVersion' in value &&
    'doGenerate' in value &&
    typeof value.doGenerate === 'function' &&
    'doStream' in value &&
    typeof value.doStream === 'function'
  )
}

function toV3({ prompt, reasoning: _reasoning, ...options }: LanguageModelV4CallOptions): LanguageModelV3CallOptions {
  return { ...options, prompt: toV3Prompt(prompt) }
}

/** Converts files to the form of v3. All other parts in the prompts of this service have the same form in v3. */
function toV3Prompt(prompt: LanguageModelV4Prompt): LanguageModelV3Prompt {
  return prompt.map(toV3Message)
}

function toV3Message(message: LanguageModelV4Message): LanguageModelV3Message {
  switch (message.role) {
    case 'system':
      return message
    case 'user':
      return { ...message, content: message.content.map((part) => (part.type === 'file' ? toV3File(part) : part)) }
    case 'assistant':
      return {
        ...message,
        content: message.content.flatMap((part) =>
          part.type === 'text' || part.type === 'reasoning' || part.type === 'tool-call' ? [part] : [],
        ),
      }
    case 'tool':
      return {
        ...message,
        content: message.content.flatMap((part) =>
          part.type === 'tool-result' ? [{ ...part, output: toV3Output(part.output) }] : [],
        ),
      }
  }
}

function toV3File({ data, ...part }: LanguageModelV4FilePart) {
  return { ...part, data: data.type === 'url' ? data.url : data.type === 'data' ? data.data : '' }
}

type V3ResultPart = Extract<LanguageModelV3ToolResultOutput, { type: 'content' }>['value'][number]

function toV3Output(output: LanguageModelV4ToolResultOutput): LanguageModelV3ToolResultOutput {
  if (output.type !== 'content') return output
  return {
    type: 'content',
    value: output.value.flatMap((part): readonly V3ResultPart[] => {
      if (part.type === 'text') return [part]
      if (part.type !== 'file' || part.data.type !== 'data') return []
      const { mediaType } = part
      const data = typeof part.data.data === 'string' ? part.data.data : Buffer.from(part.data.data).toString('base64')
      return [{ type: mediaType.startsWith('image') ? 'image-data' : 'file-data', data, mediaType }]
    }),
  }
}
