import { isShort } from '../json-writer.ts'
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

/** The most characters of an empty usage, and the most `usage` properties that are compared with it. Honest answers have one. */
const maxUsageLength = 4096
const maxProperties = 100

/**
 * Replaces the empty usage of a whole answer. If the empty usage is found in the upstream's bytes, the other bytes stay
 * unchanged. It is not searched for behind many other usages, or if it is long.
 */
export function withUsage({ bytes, completion }: ModelReply, usage: Usage): string | object {
  if (bytes && isShort({ usage: completion.usage }, maxUsageLength)) {
    const text = bytes.toString('utf8')
    const empty = JSON.stringify(completion.usage)
    let left = maxProperties
    for (const { index, 0: property, 1: value = '' } of text.matchAll(usageProperty)) {
      if (value.length <= maxUsageLength && isSame(value, empty)) {
        return `${text.slice(0, index)}"usage":${JSON.stringify(usage)}${text.slice(index + property.length)}`
      }
      if (--left === 0) break
    }
  }
  return { ...completion, usage }
}

function isSame(json: string, written: string): boolean {
  try {
    return JSON.stringify(JSON.parse(json)) === written
  } catch {
    return false
  }
}
