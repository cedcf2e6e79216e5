import type { ReplyFormat } from '../chat/reply-format.ts'
import type { OutputItem } from '../openai/response.ts'
import type { ResponseRequest } from '../openai/response-request.ts'
import { unixSeconds } from '../time.ts'
import { EventWriter } from './event-writer.ts'
import { idOf, outputOf } from './output.ts'
import { type Ended, echoOf, ownFieldsOf, type ResponseFields, responseOf } from './response-of.ts'
import type { Translation } from './to-completion.ts'

/**
 * The format of `POST /responses`: OpenAI's response objects, and typed events for a stream.
 * @param keep gets the output items at the end, so that later requests can refer to them
 */
export function responseReplyFormat(
  request: ResponseRequest,
  { ignored, nameOf, translateError }: Pick<Translation, 'ignored' | 'nameOf' | 'translateError'>,
  keep: (output: readonly OutputItem[]) => void,
): ReplyFormat {
  const id = idOf('resp')
  const writer = new EventWriter()
  let head: Partial<Head> = {}
  let hasBegun = false
  let reason: string | null | undefined
  /** The JSON of the fields that each response of a stream repeats. */
  let echo = '{}'

  const fieldsOf = (output: readonly OutputItem[]): ResponseFields => ({
    ...{ id, created: unixSeconds(), model: request.model, ...head },
    output,
  })
  const begin = (): string => {
    if (hasBegun) return ''
    hasBegun = true
    head = { created: unixSeconds(), model: request.model, ...head }
    const begun = ownFieldsOf(fieldsOf(writer.output))
    const created = writer.responseEvent('response.created', begun, echo)
    return created + writer.responseEvent('response.in_progress', begun, echo)
  }
  const end = (ended: Ended, output: readonly OutputItem[]): string => {
    const response = ownFieldsOf(fieldsOf(output), ended)
    return writer.responseEvent(`response.${response.status}`, response, echo)
  }
  return {
    ignored,
    nameOf,
    includesUsage: true,
    isRewritten: true,
    whole({ completion }, usage) {
      const output = outputOf(completion)
      keep(output)
      head = headOf(completion)
      return responseOf(request, fieldsOf(output), { reason: completion.choices[0]?.finish_reason, usage })
    },
    prepare() {
      echo = JSON.stringify(echoOf(request))
    },
    chunk({ chunk }) {
      if (!hasBegun) head = { ...headOf(chunk), ...head }
      const [choice] = chunk.choices
      // Some upstreams begin with a chunk that has neither a choice nor a model.
      if (!choice) return ''
      reason = choice.finish_reason || reason
      return begin() + writer.add(choice.delta)
    },
    end(chunk) {
      const events = begin() + writer.end(reason)
      keep(writer.output)
      return events + end({ reason, usage: chunk?.usage }, writer.output)
    },
    failure(thrown) {
      const { status, message } = translateError(thrown)
      return begin() + end({ error: { code: failureCodeOf(status), message } }, writer.cutOutput)
    },
  }
}

/** The code of a failed response. OpenAI has few codes for all failures (API reference, "The Response object"). */
function failureCodeOf(status: number): string {
  if (status === 429) return 'rate_limit_exceeded'
  return status < 500 && status !== 499 ? 'invalid_prompt' : 'server_error'
}

interface Head {
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** The most characters of a model's name, as in a request. Three events of a stream repeat the name. */
const maxModelLength = 500

/** The time and the model of an answer. A value that is missing or cannot be used is left out. */
function headOf({ created, model }: { readonly created: unknown; readonly model: unknown }): Partial<Head> {
  return {
    ...(typeof created === 'number' && created > 0 ? { created: Math.trunc(created) } : {}),
    ...(typeof model === 'string' && model !== '' && model.length <= maxModelLength ? { model } : {}),
  }
}
