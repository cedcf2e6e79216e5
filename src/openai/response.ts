import { type Static, Type } from '@sinclair/typebox'
import { oneOf } from './rules.ts'

/* A response of the Responses API, after OpenAI's API reference: the fields that Conservatory writes. */

const status = oneOf('in_progress', 'completed', 'incomplete')

const OutputText = Type.Object({
  type: Type.Literal('output_text'),
  text: Type.String(),
  annotations: Type.Array(Type.Never()),
  logprobs: Type.Array(Type.Never()),
})
const Refusal = Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() })

const OutputMessage = Type.Object({
  type: Type.Literal('message'),
  id: Type.String(),
  status,
  role: Type.Literal('assistant'),
  content: Type.Array(Type.Union([OutputText, Refusal])),
})

const FunctionCall = Type.Object({
  type: Type.Literal('function_call'),
  id: Type.String(),
  status,
  call_id: Type.String(),
  name: Type.String(),
  arguments: Type.String(),
})

const CustomCall = Type.Object({
  type: Type.Literal('custom_tool_call'),
  id: Type.String(),
  status,
  call_id: Type.String(),
  name: Type.String(),
  input: Type.String(),
})

const Reasoning = Type.Object({
  type: Type.Literal('reasoning'),
  id: Type.String(),
  status,
  summary: Type.Array(Type.Never()),
  content: Type.Array(Type.Object({ type: Type.Literal('reasoning_text'), text: Type.String() })),
  encrypted_content: Type.Optional(
    Type.String({
      description: "The provider's signatures. Send the item back, so that the model keeps its reasoning.",
    }),
  ),
})

/** An output of a model: a message, a tool call, or its reasoning. */
export const OutputItem = Type.Union([OutputMessage, FunctionCall, CustomCall, Reasoning])
export type OutputItem = Static<typeof OutputItem>
export type OutputMessage = Static<typeof OutputMessage>
/** A call of a function, or of a custom tool. */
export type Call = Static<typeof FunctionCall> | Static<typeof CustomCall>
export type Reasoning = Static<typeof Reasoning>

const Nothing = Type.Null()
const Anything = Type.Unknown()

/** A response, which repeats fields of its request. */
export const ResponseObject = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('response'),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    status: oneOf('in_progress', 'completed', 'incomplete', 'failed'),
    background: Type.Literal(false),
    error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Nothing]),
    incomplete_details: Type.Union([Type.Object({ reason: oneOf('max_output_tokens', 'content_filter') }), Nothing]),
    instructions: Type.Union([Type.String(), Nothing]),
    max_output_tokens: Type.Union([Type.Integer(), Nothing]),
    model: Type.String(),
    output: Type.Array(OutputItem),
    parallel_tool_calls: Type.Boolean(),
    previous_response_id: Nothing,
    reasoning: Type.Object({ effort: Type.Union([Type.String(), Nothing]), summary: Nothing }),
    store: Type.Literal(false, { description: 'Always false: the service stores no response.' }),
    temperature: Type.Union([Type.Number(), Nothing]),
    text: Type.Object({ format: Anything, verbosity: Type.Optional(Type.String()) }),
    tool_choice: Anything,
    tools: Type.Array(Anything),
    top_p: Type.Union([Type.Number(), Nothing]),
    truncation: Type.Literal('disabled'),
    usage: Type.Union([
      Type.Object({
        input_tokens: Type.Integer(),
        input_tokens_details: Type.Object({ cached_tokens: Type.Integer(), cache_write_tokens: Type.Integer() }),
        output_tokens: Type.Integer(),
        output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
        total_tokens: Type.Integer(),
      }),
      Nothing,
    ]),
    user: Type.Optional(Type.String()),
    metadata: Anything,
  },
  { title: 'Response' },
)
export type ResponseObject = Static<typeof ResponseObject>
