import { ApiError } from '../errors.ts'
import { type Fields, field, fieldsIn, isFields, listIn, textIn } from '../fields.ts'
import type { Call } from '../openai/response.ts'
import { extraIn } from './signatures.ts'

/**
 * The most characters of the texts and arguments in a response. They have a bound because the last events of a stream repeat them
 * four times.
 */
export const maxResponseLength = 2 * 1024 ** 2

/** The error of an answer with more than `maxResponseLength` characters. */
export function tooLongAnswer(): ApiError {
  return new ApiError(
    502,
    'upstream_error',
    `The model's answer has more than ${maxResponseLength} characters, more than a response may have. Ask for a shorter answer, or ask by POST /chat/completions.`,
  )
}

/** The parts of a model's message, or of a delta. */
export interface MessageParts {
  /** The model's reasoning text. */
  readonly thought: string
  readonly text: string
  readonly refusal: string
  readonly calls: readonly ToolCallParts[]
  /** The provider's signatures. */
  readonly extra?: Fields | undefined
}

/** A tool call, or the part of it that a delta has. */
interface ToolCallParts {
  /** The same number in all deltas of one call. */
  readonly index: number
  readonly kind: Call['type']
  /** The id that the result of the call names; empty if this delta does not have it. */
  readonly id: string
  readonly name: string
  /** The arguments of a function, or the input of a custom tool. */
  readonly text: string
  /** The provider's signature. */
  readonly extra?: Fields | undefined
}

/** Names of the field with the reasoning text: the first is from DeepSeek and vLLM, the second from OpenRouter. */
const thoughtNames = ['reasoning_content', 'reasoning']

/**
 * Reads a message or a delta. Upstreams may send a value of any type. A value of a wrong type counts as absent.
 * @throws ApiError 502 for calls with more than `maxResponseLength` characters
 */
export function readMessageParts(message: unknown): MessageParts {
  const fields = isFields(message) ? message : {}
  const calls = listIn(fields, 'tool_calls')
  if (JSON.stringify(calls).length > maxResponseLength) throw tooLongAnswer()
  const thoughts = [...thoughtNames.map((name) => textIn(fields, name)), partsOf(fields, 'thinking')]
  return {
    thought: thoughts.find((thought) => thought !== '') ?? '',
    text: textIn(fields, 'content') || partsOf(fields, 'text'),
    refusal: textIn(fields, 'refusal'),
    calls: calls.map(readCall),
    extra: extraIn(message),
  }
}

/**
 * Joins the texts of the content parts of one type. In Mistral's reasoning models, a part of the type `thinking` contains parts
 * too.
 */
function partsOf(holder: unknown, type: 'text' | 'thinking', name = 'content'): string {
  const parts = listIn(isFields(holder) ? holder : {}, name).filter((part) => field(part, 'type') === type)
  if (type === 'thinking') return parts.map((part) => partsOf(part, 'text', 'thinking')).join('')
  return parts.map((part) => (isFields(part) ? textIn(part, 'text') : '')).join('')
}

function readCall(call: unknown, place: number): ToolCallParts {
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
    extra: extraIn(call),
    // Some upstreams send the arguments as an object.
    text: isFields(argument) ? JSON.stringify(argument) : textIn(called, isCustom ? 'input' : 'arguments'),
  }
}
