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

/**
 * Replaces the empty usage of a whole answer. If the empty usage is found in the upstream's bytes, the other bytes stay
 * unchanged.
 */
export function withUsage({ bytes, completion }: ModelReply, usage: Usage): string | object {
  const changed = () => ({ ...completion, usage })
  if (!bytes) return changed()
  const text = bytes.toString('utf8')
  const property = `"usage":${JSON.stringify(usage)}`
  const empty = JSON.stringify(completion.usage)
  const found = [...text.matchAll(usageProperty)].find(([, value = '']) => isSame(value, empty))
  return found ? text.slice(0, found.index) + property + text.slice(found.index + found[0].length) : changed()
}

function isSame(json: string, written: string): boolean {
  try {
    return JSON.stringify(JSON.parse(json)) === written
  } catch {
    return false
  }
}
