import type { CompletionRequest } from '../../openai/completion-request.ts'
import { FrozenMessagesCache } from '../../openai/frozen-messages-cache.ts'

/** Messages as JSON, with a comma between any two. */
const written = new FrozenMessagesCache((messages) =>
  Buffer.from(messages.map((message) => JSON.stringify(message)).join(',')),
)

const opening = Buffer.from('{"messages":[')

/** Writes a request as the JSON bytes that go upstream. Frozen messages at its beginning are written once and kept. */
export function requestBytes({ messages, ...rest }: CompletionRequest): Buffer {
  const beginning = written.of(messages)
  const own = messages.slice(beginning?.messages.length ?? 0).map((message) => JSON.stringify(message))
  const comma = beginning && own.length > 0 ? ',' : ''
  // The other properties follow the messages: `{…}` without its brace, behind a comma unless there are none.
  const others = JSON.stringify(rest).slice(1)
  const end = Buffer.from(`${comma}${own.join(',')}]${others === '}' ? '' : ','}${others}`)
  return Buffer.concat(beginning ? [opening, beginning.made, end] : [opening, end])
}
