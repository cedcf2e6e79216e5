import type { CompletionRequest } from '../../openai/completion-request.ts'
import { FrozenMessagesCache } from '../../openai/frozen-messages-cache.ts'

/** The JSON of frozen messages, with a comma between every two messages. */
const written = new FrozenMessagesCache((messages) =>
  Buffer.from(messages.map((message) => JSON.stringify(message)).join(',')),
)

const opening = Buffer.from('{"messages":[')

/**
 * Writes a request as the JSON bytes that go upstream. The JSON of frozen messages at the beginning (those of a card) is cached.
 */
export function requestBytes({ messages, ...rest }: CompletionRequest): Buffer {
  const beginning = written.of(messages)
  const own = messages.slice(beginning?.messages.length ?? 0).map((message) => JSON.stringify(message))
  const comma = beginning && own.length > 0 ? ',' : ''
  // The JSON of the other properties without its opening brace, so only `}` if there are no others.
  const others = JSON.stringify(rest).slice(1)
  const end = Buffer.from(`${comma}${own.join(',')}]${others === '}' ? '' : ','}${others}`)
  return Buffer.concat(beginning ? [opening, beginning.made, end] : [opening, end])
}
