import type { CompletionRequest, Message } from '../chat/completion.ts'

/** Messages that never change, and how they are written: those that a card gives every request are written once. */
interface Beginning {
  readonly messages: readonly Message[]
  /** The messages as JSON, with a comma between any two. */
  readonly bytes: Buffer
}

/** What was written last of the conversations that begin with a message. */
const written = new WeakMap<Message, Beginning>()

const opening = Buffer.from('{"messages":[')

/** Writes a request as the JSON bytes that go upstream. Frozen messages at its beginning are written once and kept. */
export function requestBytes({ messages, ...rest }: CompletionRequest): Buffer {
  const beginning = beginningOf(messages)
  const own = messages.slice(beginning?.messages.length ?? 0).map((message) => JSON.stringify(message))
  const comma = beginning && own.length > 0 ? ',' : ''
  // The other properties follow the messages: `{…}` without its brace, behind a comma unless there are none.
  const others = JSON.stringify(rest).slice(1)
  const end = Buffer.from(`${comma}${own.join(',')}]${others === '}' ? '' : ','}${others}`)
  return Buffer.concat(beginning ? [opening, beginning.bytes, end] : [opening, end])
}

function beginningOf(messages: readonly Message[]): Beginning | undefined {
  const [first] = messages
  if (!first || !Object.isFrozen(first)) return undefined
  const known = written.get(first)
  if (known?.messages.every((message, index) => message === messages[index]) && !isLonger(known, messages)) return known
  const end = messages.findIndex((message) => !Object.isFrozen(message))
  const frozen = end === -1 ? messages : messages.slice(0, end)
  const bytes = Buffer.from(frozen.map((message) => JSON.stringify(message)).join(','))
  const beginning = { messages: [...frozen], bytes }
  written.set(first, beginning)
  return beginning
}

/** Whether more of the messages are frozen than are known. */
function isLonger(known: Beginning, messages: readonly Message[]): boolean {
  const next = messages[known.messages.length]
  return next !== undefined && Object.isFrozen(next)
}
