import type { Chunk, Completion } from '../../openai/completion.ts'
import { upstreamFailure } from './errors.ts'

/**
 * The largest answer, and the largest event of one, that is taken from an upstream: each is parsed in one stretch. Text is
 * far under a megabyte; pictures in base64 have some. Bytes.
 */
export const maximumAnswer = 16 * 1024 ** 2

/**
 * Parses what an upstream sent with a 200.
 * @throws ApiError 502 for what is no JSON, and for an `{"error": …}`, which is a failure all the same
 */
export function parseAnswer(text: string): unknown {
  let value: unknown
  try {
    // Its names are words of the protocol, and unescaped ones are never misread (json.ts).
    value = JSON.parse(text)
  } catch {
    throw upstreamFailure(502, 'upstream_error', 'The answer of the model was not understood. Ask again.')
  }
  if (typeof value === 'object' && value !== null && 'error' in value && value.error) {
    throw upstreamFailure(502, 'upstream_error', 'The model reported an error instead of an answer. Ask again.')
  }
  return value
}

/** Tells whether a value is a completion, as far as this service reads one; the rest is the upstream's business. */
export function isCompletion(value: unknown): value is Completion {
  return hasChoices(value) && value.choices.length > 0
}

/** Tells whether a value is a chunk, as far as this service reads one. */
export function isChunk(value: unknown): value is Chunk {
  return hasChoices(value)
}

function hasChoices(value: unknown): value is { choices: unknown[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'choices' in value &&
    Array.isArray(value.choices) &&
    value.choices.every((choice) => typeof choice === 'object' && choice !== null)
  )
}
