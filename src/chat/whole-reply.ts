import type { ModelReply } from '../models/model.ts'
import type { Usage } from '../openai/completion.ts'

/** A whole answer: the upstream's own bytes, if there are any, or else the completion. */
export function wholeOf({ bytes, completion }: ModelReply): Buffer | object {
  return bytes ?? completion
}

/**
 * A `usage` property in JSON: null, or an object with at most one more level. It matches nothing inside a JSON string, because
 * each quote has a backslash there.
 */
const usageProperty = /"usage"\s*:\s*(null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g

/**
 * A whole answer with this usage in place of the empty one. Other bytes stay, if the empty usage is found in them.
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
