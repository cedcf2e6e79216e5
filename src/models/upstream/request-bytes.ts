import { joinBytes } from '../../bytes.ts'
import { isShort, jsonBytes } from '../../json-writer.ts'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import { FrozenMessagesCache } from '../../openai/frozen-messages-cache.ts'
import type { Steps } from '../../work.ts'

/** The JSON of frozen messages, with a comma between every two messages. */
const written = new FrozenMessagesCache((messages) =>
  Buffer.from(messages.map((message) => JSON.stringify(message)).join(',')),
)

const opening = Buffer.from('{"messages":[')

/** A step ends when the collected JSON has more characters than this. */
const maxLengthOfStep = 16 * 1024

/**
 * Writes a request as the JSON bytes for the upstream, message by message. The JSON of the frozen messages at the beginning,
 * which come from a card, is cached.
 */
export function* requestBytes({ messages, ...rest }: CompletionRequest): Steps<Buffer> {
  const beginning = written.of(messages)
  const pieces: Buffer[] = beginning ? [opening, beginning.made] : [opening]
  let text = ''
  let comma = beginning ? ',' : ''
  for (let index = beginning?.messages.length ?? 0; index < messages.length; index++) {
    const message = messages[index]
    if (!message) break
    text += comma
    comma = ','
    if (isShort(message)) text += JSON.stringify(message)
    else {
      pieces.push(Buffer.from(text), yield* jsonBytes(message))
      text = ''
    }
    if (text.length <= maxLengthOfStep) continue
    pieces.push(Buffer.from(text))
    yield text.length >> 3
    text = ''
  }
  if (isShort(rest)) {
    // The JSON of the other properties without its opening brace. If there are no other properties, this is only `}`.
    const others = JSON.stringify(rest).slice(1)
    pieces.push(Buffer.from(`${text}]${others === '}' ? '' : ','}${others}`))
  } else pieces.push(Buffer.from(`${text}],`), (yield* jsonBytes(rest)).subarray(1))
  return pieces.length <= 3 ? Buffer.concat(pieces) : yield* joinBytes(pieces)
}
