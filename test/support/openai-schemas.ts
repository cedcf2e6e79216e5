import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/*
 * Schemas of a chat completion and of its chunks, as OpenAI's published API description requires them
 * (github.com/openai/openai-openapi, openapi.yaml: CreateChatCompletionResponse, CreateChatCompletionStreamResponse,
 * CompletionUsage). Other properties are allowed.
 */

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const words = (...of: string[]) => Type.Union(of.map((word) => Type.Literal(word)))
const count = Type.Integer({ minimum: 0 })
const finishReasons = words('stop', 'length', 'tool_calls', 'content_filter', 'function_call')

const Usage = Type.Object({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: Type.Optional(Type.Object({ cached_tokens: Type.Optional(count) })),
  completion_tokens_details: Type.Optional(Type.Object({ reasoning_tokens: Type.Optional(count) })),
})

const envelope = { id: Type.String({ minLength: 1 }), created: count, model: Type.String({ minLength: 1 }) }

const OpenAiCompletion = Type.Object({
  ...envelope,
  object: Type.Literal('chat.completion'),
  choices: Type.Array(
    Type.Object({
      index: count,
      finish_reason: finishReasons,
      logprobs: Type.Union([Type.Null(), Type.Object({})]),
      message: Type.Object({
        role: Type.Literal('assistant'),
        content: nullable(Type.String()),
        refusal: nullable(Type.String()),
        tool_calls: Type.Optional(
          Type.Array(
            Type.Object({
              id: Type.String({ minLength: 1 }),
              type: Type.Literal('function'),
              function: Type.Object({ name: Type.String(), arguments: Type.String() }),
            }),
            { minItems: 1 },
          ),
        ),
      }),
    }),
    { minItems: 1 },
  ),
  usage: Type.Optional(Usage),
})

const OpenAiChunk = Type.Object({
  ...envelope,
  object: Type.Literal('chat.completion.chunk'),
  choices: Type.Array(
    Type.Object({
      index: count,
      finish_reason: nullable(finishReasons),
      logprobs: Type.Optional(Type.Union([Type.Null(), Type.Object({})])),
      delta: Type.Object({
        role: Type.Optional(Type.Literal('assistant')),
        content: Type.Optional(nullable(Type.String())),
        refusal: Type.Optional(nullable(Type.String())),
        tool_calls: Type.Optional(
          Type.Array(
            Type.Object({
              index: count,
              id: Type.Optional(Type.String()),
              type: Type.Optional(Type.Literal('function')),
              function: Type.Optional(
                Type.Object({ name: Type.Optional(Type.String()), arguments: Type.Optional(Type.String()) }),
              ),
            }),
          ),
        ),
      }),
    }),
  ),
  usage: Type.Optional(nullable(Usage)),
})

/** The differences of a value from a completion of OpenAI; an empty list for a valid completion. */
export function faultsOfCompletion(value: unknown): readonly string[] {
  return faults(OpenAiCompletion, value)
}

/**
 * The differences of a list of chunks from a stream of OpenAI. Each chunk must fit the schema, and all chunks must have the
 * same id, model and time. The role must come first; the `finish_reason` must come last, and only the usage after it.
 */
export function faultsOfStream(chunks: readonly unknown[]): readonly string[] {
  const found = chunks.flatMap((chunk, index) => faults(OpenAiChunk, chunk).map((fault) => `${index}: ${fault}`))
  const valid = chunks.filter((chunk) => Value.Check(OpenAiChunk, chunk))
  const heads = new Set(valid.map(({ id, model, created }) => `${id} ${model} ${created}`))
  if (heads.size > 1) found.push('the chunks have not one id, model and time')
  const pieces = valid.flatMap(({ choices }) => choices)
  for (const index of new Set(pieces.map((piece) => piece.index))) {
    const own = pieces.filter((piece) => piece.index === index)
    if (own[0]?.delta.role !== 'assistant') found.push(`choice ${index} does not begin with the role`)
    if (own.filter(({ delta }) => delta.role !== undefined).length > 1) found.push(`choice ${index} has two roles`)
    const ends = own.flatMap(({ finish_reason }, at) => (finish_reason === null ? [] : [at]))
    if (ends.length !== 1 || ends[0] !== own.length - 1) found.push(`choice ${index} has not one end, at the end`)
  }
  const usages = valid.flatMap(({ usage }, at) => (usage == null ? [] : [at]))
  if (usages.length > 1 || (usages.length === 1 && usages[0] !== valid.length - 1)) found.push('usage is not last')
  return found
}

function faults(schema: Parameters<typeof Value.Errors>[0], value: unknown): readonly string[] {
  return [...Value.Errors(schema, value)].map(({ path, message }) => `${path}: ${message}`)
}
