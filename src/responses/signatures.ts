import { type Fields, field, isFields } from '../fields.ts'
import { readJson } from '../json.ts'

/*
 * Some providers sign their reasoning and their calls, and need the signatures in the next request of a tool loop. In chat they are
 * in `extra_content` of the message and of its calls. The Responses API has one opaque text for them, `encrypted_content` of a
 * reasoning item.
 */

/** The signatures of one message. */
export interface Signatures {
  /** The `extra_content` of the message. */
  readonly message?: Fields
  /** The `extra_content` of its calls, by their ids. */
  readonly calls: Fields
}

/** The `extra_content` of a message, a delta or a call. */
export function extraIn(said: unknown): Fields | undefined {
  const extra = field(said, 'extra_content')
  return isFields(extra) ? extra : undefined
}

/** Writes signatures as one text; undefined if there are none. */
export function sealed({ message, calls }: Signatures): string | undefined {
  if (!message && Object.keys(calls).length === 0) return undefined
  return Buffer.from(JSON.stringify({ message, calls })).toString('base64')
}

/** Reads such a text; undefined for the text of another service. */
export function unsealed(text: string): Signatures | undefined {
  try {
    const read = readJson(Buffer.from(text, 'base64').toString('utf8'), { depth: 20, duplicates: 'last' })
    const message = field(read, 'message')
    const calls = field(read, 'calls')
    if (!isFields(calls)) return undefined
    return isFields(message) ? { message, calls } : { calls }
  } catch {
    return undefined
  }
}
