import type { CompletionRequest, Message } from '../chat/completion.ts'

/** JSON of messages that never change, by the message itself: those that a card gives every request are written once. */
const written = new WeakMap<Message, Buffer>()

const opening = Buffer.from('{"messages":[')
const comma = Buffer.from(',')

/** Writes a request as the JSON bytes that go upstream. Frozen messages are written once and kept. */
export function requestBytes({ messages, ...rest }: CompletionRequest): Buffer {
  const pieces: Buffer[] = [opening]
  for (const [index, message] of messages.entries()) {
    if (index > 0) pieces.push(comma)
    pieces.push(messageBytes(message))
  }
  // The other properties follow the messages: `{…}` without its brace, behind a comma unless there are none.
  const others = JSON.stringify(rest).slice(1)
  pieces.push(Buffer.from(others === '}' ? ']}' : `],${others}`))
  return Buffer.concat(pieces)
}

function messageBytes(message: Message): Buffer {
  const known = written.get(message)
  if (known) return known
  const bytes = Buffer.from(JSON.stringify(message))
  if (Object.isFrozen(message)) written.set(message, bytes)
  return bytes
}
