import type { ModelReply } from '../models/model.ts'
import type { Usage } from '../openai/completion.ts'

/** The JSON of a whole answer, as the upstream sent it where it sent one. */
export function wholeOf({ bytes, completion }: ModelReply): string | Buffer {
  return bytes ?? JSON.stringify(completion)
}

/** A usage as a property in JSON: nothing, or an object with objects of one level in it. Within a text its quotes have backslashes. */
const usageProperty = /"usage"\s*:\s*(null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g

/** The same with this usage in place of one that says nothing; the rest stays as the upstream sent it. */
export function withUsage({ bytes, completion }: ModelReply, usage: Usage): string {
  const changed = () => JSON.stringify({ ...completion, usage })
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
