import { type Fields, field, isFields } from '../../fields.ts'
import { type Chunk, usageIn } from '../../openai/completion.ts'

/** Texts that a later piece does not continue. */
const fixed: ReadonlySet<string> = new Set(['role', 'id', 'type', 'finish_reason'])

/** The JSON of the completion that the chunks of a stream make, for a request that asked for no stream. */
export function joinChunks(chunks: readonly Chunk[]): object {
  const choices: unknown[] = []
  const head = {}
  for (const chunk of chunks) {
    const { choices: pieces, ...more } = { ...chunk, usage: usageIn(chunk) }
    Object.assign(head, Object.fromEntries(Object.entries(more).filter(([, value]) => value != null && value !== '')))
    addAll(choices, pieces)
  }
  const joined = choices
    .filter(isFields)
    .map(({ delta, ...choice }) => ({ logprobs: null, ...choice, message: messageOf(delta) }))
  return { ...head, object: 'chat.completion', choices: joined }
}

function messageOf(delta: unknown): object {
  const { tool_calls: calls, ...said } = isFields(delta) ? delta : {}
  const message = { role: 'assistant', refusal: null, ...said, content: said['content'] || null }
  if (!Array.isArray(calls)) return message
  return { ...message, tool_calls: calls.filter(isFields).map(({ index: _index, ...call }) => call) }
}

/** Adds the pieces of a list: to the items with the same index, or at the end. */
function addAll(items: unknown[], pieces: readonly unknown[]): unknown[] {
  for (const piece of pieces) {
    const index = field(piece, 'index')
    const open = typeof index === 'number' ? items.find((item) => field(item, 'index') === index) : undefined
    if (isFields(open) && isFields(piece)) addFields(open, piece)
    else items.push(withPiece('', undefined, piece))
  }
  return items
}

function addFields(fields: Record<string, unknown>, piece: Fields): Record<string, unknown> {
  for (const [name, value] of Object.entries(piece)) {
    const isEmpty = value == null || value === ''
    if (!isEmpty || fields[name] === undefined) fields[name] = withPiece(name, fields[name], value)
  }
  return fields
}

function withPiece(name: string, before: unknown, piece: unknown): unknown {
  if (Array.isArray(piece)) return addAll(Array.isArray(before) ? before : [], piece)
  // Without a prototype, every name of a property is an ordinary one.
  if (isFields(piece) && !JSON.isRawJSON(piece))
    return addFields(isFields(before) ? before : Object.create(null), piece)
  return typeof before === 'string' && typeof piece === 'string' && !fixed.has(name) ? before + piece : piece
}
