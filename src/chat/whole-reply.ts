import type { ModelReply } from '../models/model.ts'
import type { Usage } from '../openai/completion.ts'

/** A whole answer: the upstream's own bytes if there are any, otherwise the completion. */
export function wholeOf({ bytes, completion }: ModelReply): Buffer | object {
  return bytes ?? completion
}

/**
 * A `usage` property in JSON: null, or an object with at most one more level. The pattern matches nothing inside a JSON string,
 * because a quotation mark in a string has a backslash.
 */
const usageProperty = /"usage"\s*:\s*(null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g

/** The most bytes of an empty usage, and the most `usage` properties that are compared with it. Honest answers have one. */
const maxUsageLength = 4096
const maxProperties = 100

/** The bytes at the beginning and at the end of an answer in which the usage is searched for. An answer may have 16 MiB. */
const searchedBytes = 64 * 1024

/**
 * Replaces the empty usage of a whole answer. If the empty usage is found in the upstream's bytes, the other bytes stay
 * unchanged, and the result is the pieces of the new answer. It is not searched for behind many other usages, in the middle of a
 * long answer, or if it is long.
 */
export function withUsage({ bytes, completion }: ModelReply, usage: Usage): readonly Buffer[] | object {
  const empty = JSON.stringify(completion.usage) ?? ''
  if (bytes && empty.length <= maxUsageLength) {
    let left = maxProperties
    for (const { start, end, value } of usagesIn(bytes)) {
      if (value.length <= maxUsageLength && isSame(value.toString(), empty)) {
        const written = Buffer.from(`"usage":${JSON.stringify(usage)}`)
        return [bytes.subarray(0, start), written, bytes.subarray(end)]
      }
      if (--left === 0) break
    }
  }
  return { ...completion, usage }
}

/** The `usage` properties near the beginning and near the end of an answer, with their positions. */
function* usagesIn(bytes: Buffer) {
  const isShortAnswer = bytes.length <= 2 * searchedBytes
  for (const from of isShortAnswer ? [0] : [0, bytes.length - searchedBytes]) {
    // In Latin-1, each byte is one character, so the positions in the text are the positions of the bytes.
    const text = bytes.toString('latin1', from, isShortAnswer ? bytes.length : from + searchedBytes)
    for (const { index, 0: property, 1: value = '' } of text.matchAll(usageProperty)) {
      const end = from + index + property.length
      yield { start: from + index, end, value: bytes.subarray(end - value.length, end) }
    }
  }
}

function isSame(json: string, written: string): boolean {
  try {
    return JSON.stringify(JSON.parse(json)) === written
  } catch {
    return false
  }
}
