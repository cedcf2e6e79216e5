import { type Static, Type } from '@sinclair/typebox'
import { field } from '../fields.ts'
import { finishReasons } from './finish-reasons.ts'
import { oneOf } from './rules.ts'
import { FunctionCall } from './tool-fields.ts'

/* What OpenAI's API reference publishes of a chat completion, whole and in chunks, as far as we read and write it. */

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

/** How many tokens an upstream says that an answer took. */
export type Counts = Pick<Usage, 'prompt_tokens' | 'completion_tokens'>

/** The counts of a usage; undefined for one that says nothing: it is empty, holds no counts, or nothing but zeros. */
export function countsOf(usage: unknown): Counts | undefined {
  // As with nearly every event of a stream.
  if (usage == null) return undefined
  const prompt_tokens = field(usage, 'prompt_tokens')
  const completion_tokens = field(usage, 'completion_tokens')
  if (!isCount(prompt_tokens) || !isCount(completion_tokens)) return undefined
  return prompt_tokens + completion_tokens === 0 ? undefined : { prompt_tokens, completion_tokens }
}

/** Whether a usage that was sent says nothing at all. */
export function isEmptyUsage(usage: unknown): boolean {
  return usage !== undefined && Object.values(usage ?? {}).every((value) => typeof value !== 'number' || value === 0)
}

/** Whether this can be a number of tokens: an upstream may say anything, and sums must hold. */
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

/** The usage that a chunk tells, which has one place with OpenAI, and others with Moonshot (in a choice) and with Groq. */
export function usageIn(chunk: Pick<Chunk, 'choices' | 'usage'>): unknown {
  if (countsOf(chunk.usage)) return chunk.usage
  for (const choice of chunk.choices) {
    const usage = field(choice, 'usage')
    if (countsOf(usage)) return usage
  }
  const ofGroq = field(field(chunk, 'x_groq'), 'usage')
  return countsOf(ofGroq) ? ofGroq : chunk.usage
}

/** The error body of everything but the plants. */
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

/** Tells whether a chunk is there for its usage alone. */
export function isUsageOnly({ choices, usage }: Chunk): boolean {
  return choices.length === 0 && usage != null
}
