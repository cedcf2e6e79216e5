import type { Voice } from '../chat/voice.ts'
import type { Chunk } from '../openai/completion.ts'
import type { OutputItem } from '../openai/response.ts'
import type { ResponseRequest } from '../openai/response-request.ts'
import { unixSeconds } from '../time.ts'
import { EventWriter } from './event-writer.ts'
import { idOf, outputOf } from './output.ts'
import { type Ended, responseOf } from './response-of.ts'
import type { Translation } from './to-completion.ts'

/**
 * The voice of `POST /responses`: OpenAI's response objects, and typed events where it is streamed.
 * @param keep is given what the model has put out, where it may be referred to later
 */
export function responseVoice(
  request: ResponseRequest,
  { ignored, inOwnWords }: Pick<Translation, 'ignored' | 'inOwnWords'>,
  keep: (output: readonly OutputItem[]) => void,
): Voice {
  const id = idOf('resp')
  const writer = new EventWriter()
  let head: Pick<Chunk, 'created' | 'model'> = { created: 0, model: '' }
  let hasBegun = false
  let reason: string | null | undefined

  const response = (ended?: Ended, output: readonly OutputItem[] = writer.output) =>
    responseOf(request, { id, ...head, output }, ended)
  const begin = () => {
    if (hasBegun) return ''
    hasBegun = true
    head = { created: head.created || unixSeconds(), model: head.model || request.model }
    const begun = response()
    return (
      writer.event('response.created', { response: begun }) + writer.event('response.in_progress', { response: begun })
    )
  }
  return {
    ignored,
    tellsUsage: true,
    whole({ completion }, usage) {
      const output = outputOf(completion)
      keep(output)
      const { created, model, choices } = completion
      return JSON.stringify(
        responseOf(request, { id, created, model, output }, { reason: choices[0]?.finish_reason, usage }),
      )
    },
    chunk({ chunk }) {
      if (!hasBegun) head = { created: head.created || chunk.created, model: head.model || chunk.model }
      const [choice] = chunk.choices
      // Some services begin with a chunk that has neither a choice nor a model.
      if (!choice) return ''
      reason = choice.finish_reason ?? reason
      return begin() + writer.add(choice.delta)
    },
    end(chunk) {
      const events = begin() + writer.end(reason)
      keep(writer.output)
      const ended = response({ reason, usage: chunk?.usage })
      return events + writer.event(`response.${ended.status}`, { response: ended })
    },
    failure(thrown) {
      const { code, message } = inOwnWords(thrown)
      const events = begin()
      return (
        events + writer.event('response.failed', { response: response({ error: { code, message } }, writer.cutOutput) })
      )
    },
  }
}
