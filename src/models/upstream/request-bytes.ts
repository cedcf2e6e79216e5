import type { CompletionRequest } from '../../openai/completion-request.ts'
import { FrozenMessagesCache } from '../../openai/frozen-messages-cache.ts'
import type { Steps } from '../../work.ts'

/** The JSON of frozen messages, with a comma between every two messages. */
const written = new FrozenMessagesCache((messages) =>
  Buffer.from(messages.map((message) => JSON.stringify(message)).join(',')),
)

const opening = Buffer.from('{"messages":[')

/** A step ends after a JSON text that has more characters than this. */
const maxLengthOfStep = 16 * 1024

/**
 * Writes a request as the JSON bytes for the upstream, message by message. The JSON of the frozen messages at the beginning,
 * which come from a card, is cached.
 */
export function* requestBytes({ messages, ...rest }: CompletionRequest): Steps<Buffer> {
  const beginning = written.of(messages)
  const own: string[] = []
  for (const message of messages.slice(beginning?.messages.length ?? 0)) {
    const json = JSON.stringify(message)
    own.push(json)
    if (json.length > maxLengthOfStep) yield json.length >> 3
  }
  const comma = beginning && own.length > 0 ? ',' : ''
  // The JSON of the other properties without its opening brace. If there are no other properties, this is only `}`.
  const others = JSON.stringify(rest).slice(1)
  if (others.length > maxLengthOfStep) yield others.length >> 3
  const end = Buffer.from(`${comma}${own.join(',')}]${others === '}' ? '' : ','}${others}`)
  return Buffer.concat(beginning ? [opening, beginning.made, end] : [opening, end])
}
