import { field, fieldsIn, isFields, listIn, textIn } from '../fields.ts'
import type { Call } from '../openai/response.ts'

/** What a message of a model, or a piece of one, says. */
export interface Said {
  /** What the model thinks aloud. */
  readonly thought: string
  readonly text: string
  readonly refusal: string
  readonly calls: readonly SaidCall[]
}

/** A call of a tool, or a piece of one. */
interface SaidCall {
  /** The number by which the pieces of a streamed call know each other. */
  readonly index: number
  readonly kind: Call['type']
  /** The id that a result names; empty where this piece does not tell it. */
  readonly id: string
  readonly name: string
  /** The arguments of a function, or the input of a custom tool. */
  readonly text: string
}

/** What upstreams call the text that a model thinks aloud: DeepSeek's and vLLM's name, and OpenRouter's. */
const thoughtNames = ['reasoning_content', 'reasoning']

/** Reads a message, or a piece of one. Upstreams send anything in these fields: a value of another kind counts as none. */
export function readSaid(message: unknown): Said {
  const fields = isFields(message) ? message : {}
  const thoughts = [...thoughtNames.map((name) => textIn(fields, name)), partsOf(fields, 'thinking')]
  return {
    thought: thoughts.find((thought) => thought !== '') ?? '',
    text: textIn(fields, 'content') || partsOf(fields, 'text'),
    refusal: textIn(fields, 'refusal'),
    calls: listIn(fields, 'tool_calls').map(readCall),
  }
}

/** The texts of a content in parts; Mistral's reasoning models have parts of the type `thinking`, which hold parts themselves. */
function partsOf(holder: unknown, type: 'text' | 'thinking', name = 'content'): string {
  const parts = listIn(isFields(holder) ? holder : {}, name).filter((part) => field(part, 'type') === type)
  if (type === 'thinking') return parts.map((part) => partsOf(part, 'text', 'thinking')).join('')
  return parts.map((part) => (isFields(part) ? textIn(part, 'text') : '')).join('')
}

function readCall(call: unknown, place: number): SaidCall {
  const fields = isFields(call) ? call : {}
  const index = field(call, 'index')
  const isCustom = isFields(field(call, 'custom'))
  const called = fieldsIn(fields, isCustom ? 'custom' : 'function')
  const argument = called[isCustom ? 'input' : 'arguments']
  return {
    index: typeof index === 'number' ? index : place,
    kind: isCustom ? 'custom_tool_call' : 'function_call',
    id: textIn(fields, 'id'),
    name: textIn(called, 'name'),
    // Some upstreams send the arguments as an object.
    text: isFields(argument) ? JSON.stringify(argument) : textIn(called, isCustom ? 'input' : 'arguments'),
  }
}
