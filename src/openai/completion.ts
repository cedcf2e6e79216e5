import { type Static, Type } from '@sinclair/typebox'
import { field } from '../fields.ts'
import { finishReasons } from './finish-reasons.ts'
import { oneOf } from './rules.ts'
import { FunctionCall } from './tool-fields.ts'

/* A chat completion, whole and in chunks, after OpenAI's API reference: the fields that Conservatory reads and writes. */

/** Tokens used, as OpenAI counts them. */
export const Usage = Type.Object(
  {
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
  },
  { title: 'Usage' },
)
export type Usage = Static<typeof Usage>

/** The token counts of an answer that an upstream reports. */
export type Counts = Pick<Usage, 'prompt_tokens' | 'completion_tokens'>

/** The counts of a usage; undefined if the usage has no valid counts, or only zeros. */
export function countsOf(usage: unknown): Counts | undefined {
  if (usage == null) return undefined
  const prompt_tokens = field(usage, 'prompt_tokens')
  const completion_tokens = field(usage, 'completion_tokens')
  if (!isCount(prompt_tokens) || !isCount(completion_tokens)) return undefined
  return prompt_tokens + completion_tokens === 0 ? undefined : { prompt_tokens, completion_tokens }
}

/** Whether a usage was sent, but has no number other than 0. */
export function isEmptyUsage(usage: unknown): boolean {
  return usage !== undefined && Object.values(usage ?? {}).every((value) => typeof value !== 'number' || value === 0)
}

/** Whether a value can be a number of tokens. Upstreams may send any value. The bound keeps sums exact. */
function isCount(tokens: unknown): tokens is number {
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0 && tokens < 1e12
}

const finishReason = oneOf(...finishReasons)

/** A whole reply. */
export const Completion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('chat.completion'),
    created: Type.Integer({ description: 'Unix seconds.' }),
    model: Type.String(),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        message: Type.Object({
          role: Type.Literal('assistant'),
          content: Type.Union([Type.String(), Type.Null()]),
          refusal: Type.Union([Type.String(), Type.Null()]),
          tool_calls: Type.Optional(Type.Array(FunctionCall)),
        }),
        logprobs: Type.Null(),
        finish_reason: finishReason,
      }),
    ),
    usage: Type.Optional(Usage),
  },
  { title: 'Completion' },
)
export type Completion = Static<typeof Completion>

/** One event of a streamed reply. */
export const Chunk = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal('chat.completion.chunk'),
    created: Type.Integer({ description: 'Unix seconds.' }),
    model: Type.String(),
    choices: Type.Array(
      Type.Object({
        index: Type.Integer(),
        delta: Type.Object({
          role: Type.Optional(Type.Literal('assistant')),
          content: Type.Optional(Type.Union([Type.String(), Type.Null()])),
          refusal: Type.Optional(Type.Union([Type.String(), Type.Null()])),
          tool_calls: Type.Optional(
            Type.Array(
              Type.Object({
                index: Type.Integer(),
                id: Type.Optional(Type.String()),
                type: Type.Optional(Type.Literal('function')),
                function: Type.Optional(
                  Type.Object({ name: Type.Optional(Type.String()), arguments: Type.Optional(Type.String()) }),
                ),
              }),
            ),
          ),
        }),
        logprobs: Type.Null(),
        finish_reason: Type.Union([finishReason, Type.Null()]),
      }),
    ),
    usage: Type.Optional(Type.Union([Usage, Type.Null()])),
  },
  { title: 'Chunk' },
)
export type Chunk = Static<typeof Chunk>

/** The usage of a chunk: in `usage` (OpenAI), in a choice (Moonshot) or in `x_groq` (Groq). */
export function usageIn(chunk: Pick<Chunk, 'choices' | 'usage'>): unknown {
  const { usage, choices } = chunk
  if (usage != null && countsOf(usage)) return usage
  for (const choice of choices) if ('usage' in choice && countsOf(choice.usage)) return choice.usage
  if (!('x_groq' in chunk)) return usage
  const ofGroq = field(chunk.x_groq, 'usage')
  return countsOf(ofGroq) ? ofGroq : usage
}

/** The fields of a message or a delta from which texts are read. */
export interface Words {
  readonly content?: unknown
  readonly tool_calls?: unknown
}

/** The text and the tool arguments of a message or a delta. Upstreams may leave the fields out, or send values of any type. */
export function wordsOf(said: Words | null | undefined): string {
  let words = typeof said?.content === 'string' ? said.content : ''
  if (!Array.isArray(said?.tool_calls)) return words
  for (const call of said.tool_calls) {
    // A call of a custom tool has `custom` instead of `function`.
    const written = field(field(call, 'function'), 'arguments') ?? field(field(call, 'custom'), 'input')
    if (typeof written === 'string') words += written
  }
  return words
}

/** The error body of all routes except the routes of plants. */
export const ChatError = Type.Object(
  {
    error: Type.Object({
      message: Type.String({ description: 'A sentence that says what to change.' }),
      type: Type.String(),
      param: Type.Union([Type.String(), Type.Null()], { description: 'The field with the fault.' }),
      code: Type.String(),
    }),
  },
  {
    title: 'ChatError',
    examples: [
      {
        error: {
          message: 'The field "messages" is missing. Send it.',
          type: 'invalid_request_error',
          param: 'messages',
          code: 'missing_field',
        },
      },
    ],
  },
)

/** Whether a chunk has a usage and no choices. */
export function isUsageOnly({ choices, usage }: Chunk): boolean {
  return choices.length === 0 && usage != null
}
