import { type Static, Type } from '@sinclair/typebox'
import { ModelId, ModelParameters, OwnFields } from './completion-request.ts'
import {
  anyObject,
  callId,
  flag,
  nullable,
  numbersReadOf,
  oneOf,
  requestRules,
  text,
  toolName,
  wholeBetween,
} from './rules.ts'

/*
 * A request of the Responses API, after OpenAI's API reference. Fields that Conservatory reads are typed strictly; all other
 * fields are open and pass through.
 */

/** Maximum items of an input, and maximum parts of an item. */
const maxItems = 10_000
const maxParts = 1000

/** Parameters that go to a model unchanged, with the schemas of chat. OpenAI's Responses API has only the first two. */
const { temperature, top_p, stop, seed, presence_penalty, frequency_penalty } = ModelParameters.properties

/** A part of an item's content. */
export const InputPart = Type.Object(
  {
    type: text({ minLength: 1 }),
    text: Type.Optional(text()),
    refusal: Type.Optional(text()),
    image_url: nullable(text({ minLength: 1 })),
    detail: nullable(text()),
    file_data: nullable(text()),
    file_id: nullable(text()),
    file_url: nullable(text()),
    filename: nullable(text()),
    input_audio: Type.Optional(Type.Object({ data: text({ minLength: 1 }), format: text({ minLength: 1 }) })),
  },
  { title: 'InputPart', examples: [{ type: 'input_text', text: 'Hello!' }] },
)
export type InputPart = Static<typeof InputPart>

const Content = Type.Union([Type.String(), Type.Array(InputPart, { maxItems: maxParts }), Type.Null()], {
  description: 'A text, or an array of parts.',
  errorMessage: `send a text or an array of at most ${maxParts} parts`,
})

/** One item of an input: a message, a tool call, its result, reasoning, or a reference to an item of an earlier response. */
export const InputItem = Type.Object(
  {
    type: nullable(text()),
    id: nullable(text({ minLength: 1 })),
    role: Type.Optional(oneOf('user', 'assistant', 'system', 'developer')),
    content: Type.Optional(Content),
    call_id: Type.Optional(callId()),
    name: Type.Optional(text({ minLength: 1 })),
    arguments: Type.Optional(text()),
    input: Type.Optional(text()),
    output: Type.Optional(Content),
    encrypted_content: nullable(text()),
  },
  { title: 'InputItem', examples: [{ role: 'user', content: 'Hello!' }] },
)
export type InputItem = Static<typeof InputItem>

/** The format of a custom tool's input. */
const ToolFormat = Type.Object({
  type: oneOf('text', 'grammar'),
  definition: Type.Optional(text()),
  syntax: Type.Optional(text()),
})

const Tool = Type.Object(
  {
    type: text({ minLength: 1 }),
    name: Type.Optional(toolName()),
    description: nullable(text()),
    parameters: nullable(anyObject({ errorMessage: 'send a JSON Schema object' })),
    strict: nullable(Type.Boolean()),
    format: Type.Optional(ToolFormat),
  },
  { title: 'ResponseTool' },
)
export type Tool = Static<typeof Tool>

const ToolChoice = Type.Union(
  [
    oneOf('none', 'auto', 'required'),
    Type.Object({
      type: text({ minLength: 1 }),
      name: Type.Optional(toolName()),
      mode: Type.Optional(oneOf('auto', 'required')),
      tools: Type.Optional(Type.Array(Type.Object({ type: text(), name: Type.Optional(text()) }), { maxItems: 128 })),
    }),
  ],
  { errorMessage: 'send none, auto, required, or {"type": "function", "name": …}' },
)
export type ToolChoice = Static<typeof ToolChoice>

const Format = Type.Object({
  type: oneOf('text', 'json_object', 'json_schema'),
  name: Type.Optional(text({ minLength: 1 })),
  description: nullable(text()),
  schema: Type.Optional(anyObject({ errorMessage: 'send a JSON Schema object' })),
  strict: nullable(Type.Boolean()),
})
export type Format = Static<typeof Format>

/** The request body of `POST /responses`. */
export const ResponseRequest = Type.Object(
  {
    model: ModelId,
    input: Type.Union([Type.String(), Type.Array(InputItem, { minItems: 1, maxItems: maxItems })], {
      description: 'A text of the user, or the items of the conversation.',
      errorMessage: `send a text or an array of 1 to ${maxItems} items`,
    }),
    instructions: nullable(text()),
    ...OwnFields.properties,
    stream: flag(),
    store: flag(),
    max_output_tokens: nullable(wholeBetween(1, 2 ** 31 - 1)),
    temperature,
    top_p,
    stop,
    seed,
    presence_penalty,
    frequency_penalty,
    tools: nullable(Type.Array(Tool, { maxItems: 128, errorMessage: 'send an array of at most 128 tools' })),
    tool_choice: nullable(ToolChoice),
    parallel_tool_calls: flag(),
    text: nullable(Type.Object({ format: nullable(Format), verbosity: nullable(text()) })),
    reasoning: nullable(Type.Object({ effort: nullable(text()) })),
    metadata: nullable(anyObject({ errorMessage: 'send an object' })),
    user: nullable(text()),
    background: flag(),
    previous_response_id: nullable(text()),
  },
  {
    title: 'ResponseRequest',
    ...requestRules,
    examples: [{ model: 'understudy', character: 'Fern', input: 'Why are my leaves yellow?' }],
  },
)
/** The fields of a request whose numbers are read here. */
export const responseNumbers = numbersReadOf(ResponseRequest, 'input', 'tools', 'tool_choice', 'text', 'metadata')
export type ResponseRequest = Static<typeof ResponseRequest>
