import { type Static, type TProperties, Type } from '@sinclair/typebox'
import { anyObject, callId, nullable, oneOf, text, toolName } from './rules.ts'

/* The tools of a chat completion request, and their calls, after OpenAI's API reference. */

/** Maximum tools of a request. */
export const maxTools = 128

const CalledFunction = Type.Object({ name: text({ minLength: 1 }), arguments: text() })

/** A call of a function. */
export const FunctionCall = Type.Object(
  { id: text({ minLength: 1 }), type: Type.Literal('function'), function: CalledFunction },
  { title: 'FunctionCall' },
)
export type FunctionCall = Static<typeof FunctionCall>

/** A call of a custom tool, whose input is any text. */
const CustomCall = Type.Object({
  id: text({ minLength: 1 }),
  type: Type.Literal('custom'),
  custom: Type.Object({ name: text({ minLength: 1 }), input: text() }),
})

/**
 * An object with a `type`, and with a property of the same name: `function` or `custom`. The schema is one object for both types,
 * so that an error message can name the property. `checkTools` and `checkMessages` check that the property is present.
 */
const functionOrCustom = <T>(properties: TProperties, title: string) =>
  Type.Unsafe<T>(Type.Object({ ...properties, type: oneOf('function', 'custom') }, { title }))

/** A tool call in an assistant message. Its type may be one that only an upstream knows; other models refuse it. */
export const ToolCall = Type.Unsafe<FunctionCall | Static<typeof CustomCall>>(
  Type.Object(
    {
      id: callId(),
      type: text({ minLength: 1 }),
      function: Type.Optional(CalledFunction),
      custom: Type.Optional(CustomCall.properties.custom),
    },
    { title: 'ToolCall' },
  ),
)
export type ToolCall = Static<typeof ToolCall>

const FunctionTool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: toolName(),
    description: nullable(text()),
    parameters: nullable(anyObject({ errorMessage: 'send a JSON Schema object' })),
    strict: nullable(Type.Boolean()),
  }),
})
/** A function that a model may call. */
export type FunctionTool = Static<typeof FunctionTool>

/** A tool whose input is any text, or a text that fits a grammar. */
const CustomTool = Type.Object({
  type: Type.Literal('custom'),
  custom: Type.Object({ name: toolName(), description: nullable(text()) }),
})

/** A tool that a model may call. */
export const Tool = functionOrCustom<FunctionTool | Static<typeof CustomTool>>(
  {
    function: Type.Optional(FunctionTool.properties.function),
    custom: Type.Optional(CustomTool.properties.custom),
  },
  'Tool',
)
export type Tool = Static<typeof Tool>

const named = Type.Object({ name: toolName() })
type Named = Static<typeof named>
/** A reference to a tool by its name. */
type NamedTool = { type: 'function'; function: Named } | { type: 'custom'; custom: Named }

const NamedTool = functionOrCustom<NamedTool>(
  { function: Type.Optional(named), custom: Type.Optional(named) },
  'NamedTool',
)

/** The tools of which the model may, or must, call one. */
const AllowedTools = Type.Object({
  mode: oneOf('auto', 'required'),
  tools: Type.Array(NamedTool, {
    maxItems: maxTools,
    errorMessage: `send an array of at most ${maxTools} tools`,
  }),
})

/** Whether a model calls a tool, and which one. */
export const ToolChoice = Type.Union(
  [
    oneOf('none', 'auto', 'required'),
    Type.Unsafe<NamedTool | { type: 'allowed_tools'; allowed_tools: Static<typeof AllowedTools> }>(
      Type.Object({
        type: oneOf('function', 'custom', 'allowed_tools'),
        function: Type.Optional(named),
        custom: Type.Optional(named),
        allowed_tools: Type.Optional(AllowedTools),
      }),
    ),
  ],
  { errorMessage: 'send none, auto, required, or {"type": "function", "function": {"name": …}}' },
)
export type ToolChoice = Static<typeof ToolChoice>
