import type { CompletionRequest } from '../../openai/completion-request.ts'
import { FrozenMessagesCache } from '../../openai/message-sizes.ts'

/** The JSON of messages, with a comma between every two messages. */
const written = new FrozenMessagesCache((messages) => Buffer.from(JSON.stringify(messages)).subarray(1, -1))

const opening = Buffer.from('{"messages":[')
const comma = Buffer.from(',')
const noComma = Buffer.alloc(0)

/**
 * Writes a request as the JSON bytes for the upstream, message by message. The JSON of frozen messages, which come from
 * a card, is cached.
 * @param streamOptions replaces `body.stream_options`
 * @param messagesJson the JSON of all messages, if a worker has written it. Then `body.messages` is not read
 */
export function requestBytes(
  body: CompletionRequest,
  streamOptions: CompletionRequest['stream_options'],
  messagesJson?: Uint8Array,
): Buffer {
  const others: Record<string, unknown> = {}
  for (const name of Object.keys(body)) if (name !== 'messages') others[name] = Reflect.get(body, name)
  others['stream_options'] = streamOptions
  // The JSON of the other properties without its opening brace. If there are no other properties, this is only `}`.
  const rest = JSON.stringify(others).slice(1)
  const end = `${rest === '}' ? '' : ','}${rest}`
  if (messagesJson) return Buffer.concat([opening.subarray(0, -1), messagesJson, Buffer.from(end)])
  const pieces = [opening]
  for (const run of written.of(body.messages)) pieces.push(pieces.length === 1 ? noComma : comma, run)
  pieces.push(Buffer.from(`]${end}`))
  return Buffer.concat(pieces)
}
