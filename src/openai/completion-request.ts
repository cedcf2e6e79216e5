import { type Static, type TSchema, Type } from '@sinclair/typebox'
import type { ModelParameter } from './model-parameters.ts'
import {
  anyObject,
  between,
  callId,
  flag,
  nullable,
  numbersReadOf,
  oneOf,
  requestRules,
  shortText,
  text,
  wholeBetween,
} from './rules.ts'
import { maxTools, Tool, ToolCall, ToolChoice } from './tool-fields.ts'

/*
 * A chat completion request, after OpenAI's API reference. Fields that Conservatory reads are typed strictly; all other fields
 * are open and pass through.
 */

export const maxChoices = 8
/** The most messages of a request. The longest conversations of chat programs have a few thousand. */
const maxMessages = 10_000
/** The most parts of a message, and the most tool calls of a message. OpenAI allows 500 images in a request. */
const maxParts = 1000
export const maxCharacterLength = 200
/** The most characters of a persona, and of an author's note. */
const maxTextLength = 16_384
const maxLorebooks = 16
/** The most fields of `stream_options`. OpenAI's API has two. */
const maxStreamOptions = 64

/** The content of a part, as a URL. */
const AddressedPart = Type.Object({
  url: Type.String({
    minLength: 1,
    description: 'A URL with the scheme `http:`, `https:` or `data:`.',
    errorMessage: 'send a text that is not empty',
  }),
})

/** The types of content parts that are read here. */
export const partTypes = [
  ...(['text', 'image_url', 'input_audio', 'file', 'refusal', 'video_url', 'audio_url'] as const),
]

/** A part of a message's content. */
export const ContentPart = Type.Object(
  {
    type: Type.String({
      minLength: 1,
      description: `One of ${partTypes.join(', ')}. A message of the assistant may have parts of other types, as its model sent them.`,
      errorMessage: `send one of ${partTypes.join(', ')}`,
    }),
    text: Type.Optional(text()),
    image_url: Type.Optional(
      Type.Object({
        url: Type.String({
          minLength: 1,
          description: 'A URL with the scheme `http:`, `https:` or `data:`.',
          errorMessage: 'send a text that is not empty',
        }),
        detail: nullable(text()),
      }),
    ),
    input_audio: Type.Optional(Type.Object({ data: text({ minLength: 1 }), format: text({ minLength: 1 }) })),
    file: Type.Optional(
      Type.Object({
        file_data: Type.Optional(text()),
        file_id: Type.Optional(text()),
        filename: Type.Optional(text()),
      }),
    ),
    refusal: Type.Optional(text()),
    // These kinds are from vLLM and SGLang ("Multimodal Inputs" in vLLM's documentation). OpenAI's API does not have them.
    video_url: Type.Optional(AddressedPart),
    audio_url: Type.Optional(AddressedPart),
  },
  { title: 'ContentPart' },
)
export type ContentPart = Static<typeof ContentPart>

/** The roles of messages. */
export const Role = oneOf('system', 'developer', 'user', 'assistant', 'tool', 'function')
export type Role = Static<typeof Role>

/** One message of the conversation. */
export const Message = Type.Object(
  {
    role: Role,
    content: Type.Optional(
      Type.Union([Type.String(), Type.Array(ContentPart, { minItems: 1, maxItems: maxParts }), Type.Null()], {
        description: 'A text, or an array of content parts.',
        errorMessage: `send a text or an array of 1 to ${maxParts} content parts`,
      }),
    ),
    name: nullable(text()),
    tool_calls: nullable(
      Type.Array(ToolCall, {
        maxItems: maxParts,
        errorMessage: `send an array of at most ${maxParts} tool calls`,
      }),
    ),
    tool_call_id: nullable(callId()),
    refusal: nullable(text()),
  },
  { title: 'Message', examples: [{ role: 'user', content: 'Hello!' }] },
)
export type Message = Static<typeof Message>

const ResponseFormat = Type.Object({
  type: oneOf('text', 'json_object', 'json_schema'),
  json_schema: Type.Optional(
    Type.Object({
      name: text({ minLength: 1 }),
      description: nullable(text()),
      schema: Type.Optional(anyObject({ errorMessage: 'send a JSON Schema object' })),
      strict: nullable(Type.Boolean()),
    }),
  ),
})

/** A text of the user that stands `depth` messages before the end of the conversation. */
const AuthorNote = Type.Object(
  {
    text: shortText(maxTextLength, { description: 'The text of the note; macros in it are expanded.' }),
    depth: nullable(
      Type.Integer({
        minimum: 0,
        maximum: 999,
        description: 'The number of messages after the note; the default is 4.',
        errorMessage: 'send a whole number from 0 to 999',
      }),
    ),
    role: nullable(oneOf('system', 'user', 'assistant')),
  },
  {
    title: 'AuthorNote',
    errorMessage: 'send an object with a text: {"text": …, "depth": 4, "role": "system"}',
    examples: [{ text: 'It begins to rain.', depth: 2 }],
  },
)

/** The fields of a request that only Conservatory knows. No upstream ever gets these fields. */
export const OwnFields = Type.Object({
  character: nullable(
    shortText(maxCharacterLength, {
      description:
        'The character that answers. A character without a card is played by its name alone, or is a 404 if the operator has set `CHARACTERS=closed`.',
      examples: ['Fern'],
    }),
  ),
  user_name: nullable(
    shortText(maxCharacterLength, {
      description: 'The name of the user for the character; the default is "User".',
    }),
  ),
  greeting: nullable(
    Type.Integer({
      minimum: -1,
      maximum: 100_000,
      description:
        "The greeting that opens the conversation: 0 is the card's first message, 1 the first of its alternate greetings. -1 is no greeting, for clients that leave out the oldest messages. Without this field it is the greeting that the messages begin with, otherwise the first greeting of the card that is not blank. If the operator has set `GREETING=never`, no greeting is added.",
      errorMessage: 'send a whole number from -1 on',
    }),
  ),
  conversation_id: nullable(
    shortText(maxCharacterLength, {
      description:
        'Any text that identifies the conversation. With the same text, the random choices of the card and of its greeting stay the same.',
    }),
  ),
  persona: nullable(
    shortText(maxTextLength, {
      description: 'A description of the user for the prompt, also the value of the macro `{{persona}}`.',
      examples: ['{{user}} is a retired teacher who grows tomatoes.'],
    }),
  ),
  author_note: nullable(AuthorNote),
  lorebooks: nullable(
    Type.Array(anyObject({ errorMessage: 'send a lorebook object' }), {
      maxItems: maxLorebooks,
      description:
        'Lorebooks for this request, each an object in the format of Character Card V3. The service does not store them, and stored lorebooks cannot be named here.',
      errorMessage: `send an array of at most ${maxLorebooks} lorebook objects`,
    }),
  ),
})

/** The names of `OwnFields`. */
export const ownFields = [
  'character',
  'user_name',
  'greeting',
  'conversation_id',
  'persona',
  'author_note',
  'lorebooks',
] as const satisfies (keyof typeof OwnFields.properties)[]

/** The maximum tokens of a reply; -1 means no maximum for llama.cpp's server, LM Studio and their clients. */
const maxReplyTokens = Type.Union([Type.Literal(-1), Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 })], {
  errorMessage: `send a whole number from 1 to ${2 ** 31 - 1}, or -1 for no maximum`,
})

/** The id of a model in a request. */
export const ModelId = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'The id of the model; `GET /models` lists them.',
  errorMessage: 'send the id of a model; GET /models lists them',
  examples: ['understudy'],
})

/**
 * The parameters that only models read, with the values of OpenAI's API. OpenAI's maximum of `temperature` is 2. Other servers, such
 * as llama.cpp's, accept more.
 */
const modelParameters = {
  stop: nullable(
    Type.Union([Type.String(), Type.Array(Type.String(), { maxItems: 16 })], {
      errorMessage: 'send a text or an array of at most 16 texts',
    }),
  ),
  seed: nullable(wholeBetween(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  temperature: nullable(Type.Number({ minimum: 0, errorMessage: 'send a number from 0 on' })),
  top_p: nullable(between(0, 1)),
  presence_penalty: nullable(between(-2, 2)),
  frequency_penalty: nullable(between(-2, 2)),
  logprobs: flag(),
  top_logprobs: nullable(wholeBetween(0, 20)),
  tools: nullable(Type.Array(Tool, { maxItems: maxTools, errorMessage: `send an array of at most ${maxTools} tools` })),
  tool_choice: nullable(ToolChoice),
  parallel_tool_calls: flag(),
  response_format: nullable(ResponseFormat),
  reasoning_effort: nullable(text()),
  user: nullable(text()),
  metadata: nullable(anyObject({ errorMessage: 'send an object' })),
} satisfies Record<ModelParameter, TSchema>

/** The schema of the parameters that only models read. An adapter that reads them gets no other values. */
export const ModelParameters = Type.Object(modelParameters)

/** A parameter with any value, for an upstream that reads it itself. The schema of OpenAI's values stays in the documentation. */
const open = <T extends TSchema>(schema: T) =>
  Type.Optional(
    Type.Unsafe<Static<T>>({
      ...Type.Union([Type.Unknown({ description: 'Any other value, for a model of the adapter `openai`.' }), schema]),
    }),
  )

/** The request body of `POST /chat/completions`. */
export const CompletionRequest = Type.Object(
  {
    model: ModelId,
    messages: Type.Array(Message, {
      minItems: 1,
      maxItems: maxMessages,
      description: 'The conversation so far.',
      errorMessage: `send an array of 1 to ${maxMessages} messages`,
    }),
    ...OwnFields.properties,
    stream: flag(),
    stream_options: nullable(
      Type.Object(
        { include_usage: flag() },
        { maxProperties: maxStreamOptions, errorMessage: `send an object of at most ${maxStreamOptions} fields` },
      ),
    ),
    max_tokens: nullable(maxReplyTokens),
    max_completion_tokens: nullable(maxReplyTokens),
    n: nullable(wholeBetween(1, maxChoices)),
    stop: open(modelParameters.stop),
    // A seed that a double would round is refused, because the answer would be another one.
    seed: modelParameters.seed,
    temperature: open(modelParameters.temperature),
    top_p: open(modelParameters.top_p),
    presence_penalty: open(modelParameters.presence_penalty),
    frequency_penalty: open(modelParameters.frequency_penalty),
    logprobs: open(modelParameters.logprobs),
    top_logprobs: open(modelParameters.top_logprobs),
    tools: open(modelParameters.tools),
    tool_choice: open(modelParameters.tool_choice),
    parallel_tool_calls: open(modelParameters.parallel_tool_calls),
    response_format: open(modelParameters.response_format),
    reasoning_effort: open(modelParameters.reasoning_effort),
    user: open(modelParameters.user),
    metadata: open(modelParameters.metadata),
  },
  {
    title: 'CompletionRequest',
    ...requestRules,
    examples: [
      { model: 'understudy', character: 'Fern', messages: [{ role: 'user', content: 'Why are my leaves yellow?' }] },
    ],
  },
)
/** The fields of a request whose numbers are read here. */
export const chatNumbers = numbersReadOf(
  CompletionRequest,
  ...['messages', 'tools', 'tool_choice', 'response_format', 'metadata'],
)
/** A request. Several requests may share the messages, because the messages are read-only. */
export type CompletionRequest = Omit<Static<typeof CompletionRequest>, 'messages'> & {
  readonly messages: readonly Message[]
}

/** A message's text: its content, or its text parts joined. */
export function textOf(message: Message): string {
  if (typeof message.content === 'string') return message.content
  return (message.content ?? []).map((part) => part.text ?? '').join('')
}

/** The maximum tokens of a reply; undefined if the request sets no maximum, or -1. */
export function maxReplyTokensOf({
  max_completion_tokens,
  max_tokens,
}: Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens'>): number | undefined {
  const maxTokens = max_completion_tokens ?? max_tokens ?? -1
  return maxTokens === -1 ? undefined : maxTokens
}
