import type { Clock } from '../clock.ts'
import { field, isFields, listIn } from '../fields.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { FrozenMessagesCache } from '../openai/message-sizes.ts'
import { defaultConnectTimeoutMs } from '../outbound.ts'
import type { Proxies } from '../proxies.ts'
import type { OpenAiSettings } from './configuration/settings.ts'
import type { Model, ModelRequest } from './model.ts'
import { jsonOf, readWhole } from './upstream/answer.ts'
import { UpstreamConnections } from './upstream/connections.ts'
import { decompressed } from './upstream/decompressed.ts'
import {
  errorInside,
  failureOf,
  invalidAnswer,
  isSuccess,
  type ReadRefusal,
  readRefusal,
  refusalFrom,
} from './upstream/errors.ts'
import { ownTextsOf } from './upstream/own-texts.ts'
import { readEvents, readReply } from './upstream/read-events.ts'
import type { UpstreamAnswer } from './upstream/streamless-response.ts'

/** The most models that are read from an upstream's list. */
const maxListedModels = 1000
/** A model with a longer id is left out of the list. */
const maxIdLength = 400

/** Makes a model that relays requests to any service with `POST {baseUrl}/chat/completions` as in OpenAI's API. */
export function createOpenAiModel(
  { baseUrl, apiKey, headers: configuredHeaders, timeouts, streamUsage: isAskedForUsage }: OpenAiSettings,
  clock: Clock,
  proxies: Proxies,
): Model {
  const url = new URL(baseUrl)
  const pathOf = (route: string) => `${url.pathname.replace(/(?<!\/)\/*$/, '')}/${route}${url.search}`
  const completions = pathOf('chat/completions')
  const connectTimeout = timeouts?.connect ?? defaultConnectTimeoutMs
  const connections = new UpstreamConnections(url.origin, connectTimeout, clock, proxies.of(url))
  const streamUsage = new StreamUsage(isAskedForUsage)
  const headers = headersOf(apiKey, configuredHeaders)
  const secrets = ownTextsOf({ baseUrl, apiKey, headers: configuredHeaders })

  const post = (
    { body, trace, messagesJson, onSent }: ModelRequest,
    streamOptions: CompletionRequest['stream_options'],
    signal: AbortSignal,
  ): Promise<UpstreamAnswer> => {
    const sent = trace ? { ...headers, ...trace } : headers
    const bytes = requestBytes(body, streamOptions, messagesJson)
    return connections.post(completions, sent, bytes, signal, () => onSent?.(true))
  }

  const refusalIn = async (answer: UpstreamAnswer) => refusalFrom(await readRefusal(answer), secrets)

  const askForStream = async (request: ModelRequest, signal: AbortSignal): Promise<UpstreamAnswer> => {
    try {
      const options = streamUsage.optionsFor(request.body)
      const response = decompressed(await post(request, options, signal))
      if (isSuccess(response.status)) return response
      const refusal = await readRefusal(response)
      if (!streamUsage.mayRetry(options, refusal)) throw refusalFrom(refusal, secrets)
      const answer = decompressed(await post(request, undefined, signal))
      if (!isSuccess(answer.status)) throw await refusalIn(answer)
      streamUsage.rememberRefusal(request.body)
      return answer
    } catch (error) {
      throw failureOf(error)
    }
  }

  const readOptions = ({ body, openHeld }: ModelRequest) => ({ choices: body.n ?? 1, secrets, openHeld })

  return {
    ignoredParameters: null,

    async complete(request, signal) {
      try {
        const answer = decompressed(await post(request, request.body.stream_options, signal))
        if (!isSuccess(answer.status)) throw await refusalIn(answer)
        const read = readReply(answer, readOptions(request))
        const reply = read instanceof Promise ? await read : read
        return request.isRewritten ? { completion: reply.completion } : reply
      } catch (error) {
        throw failureOf(error)
      }
    },

    stream: (request, signal) =>
      readEvents(askForStream(request, signal), request.readAll === true, readOptions(request)),

    async list(signal) {
      const { 'content-type': _ofBodies, ...more } = headers
      const response = await connections
        .get(pathOf('models'), more, signal)
        .then(decompressed)
        .catch((error) => {
          throw failureOf(error)
        })
      if (!isSuccess(response.status)) throw await refusalIn(response)
      const list = jsonOf((await readWhole(response)).toString('utf8'))
      if (list === undefined) throw invalidAnswer()
      const error = errorInside(list, secrets)
      if (error) throw error
      return idsIn(list)
    },

    close: () => connections.close(),
  }
}

function headersOf(
  apiKey: string | undefined,
  configured: OpenAiSettings['headers'],
): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    // The names are in lower case, so that configured headers replace the headers above.
    ...Object.fromEntries(Object.entries(configured ?? {}).map(([name, value]) => [name.toLowerCase(), value])),
  }
}

/** The ids in a list of models in OpenAI's shape. No ids for a value of another shape. */
function idsIn(list: unknown): readonly string[] {
  const listed = listIn(isFields(list) ? list : {}, 'data').slice(0, maxListedModels)
  return listed.flatMap((model) => {
    const id = field(model, 'id')
    return typeof id === 'string' && id !== '' && id.length <= maxIdLength ? [id] : []
  })
}

/** The most models that are remembered. Callers choose the model ids behind a prefix, so the number of ids has no bound. */
const maxModels = 1000

type StreamOptions = NonNullable<CompletionRequest['stream_options']>

/**
 * Asks streams for a usage chunk at their end (`stream_options.include_usage`), and remembers the models whose service refuses
 * the option.
 */
export class StreamUsage {
  readonly #isAsked: boolean
  readonly #refusing = new Set<string>()

  /** @param isAsked false for a service that refuses the option, as the operator has set */
  constructor(isAsked = true) {
    this.#isAsked = isAsked
  }

  /** The options of a stream, with the option or without it if the model or the whole service is known to refuse it. */
  optionsFor({ model, stream_options: options }: CompletionRequest): StreamOptions | undefined {
    if (!this.#isAsked || this.#refusing.has(model)) return withoutUsage(options)
    return { ...options, include_usage: true }
  }

  /**
   * Whether to send the request again without options, after a refusal that names the option. Other options of the caller may have
   * caused the refusal too, so a request with other options is not sent again.
   */
  mayRetry(asked: StreamOptions | undefined, { body: said }: ReadRefusal): boolean {
    const isOnlyOption = asked?.include_usage === true && withoutUsage(asked) === undefined
    return isOnlyOption && /stream_options|include_usage/i.test(said)
  }

  /** To be called when a request without the option has succeeded. Later requests to the same model do not get the option. */
  rememberRefusal({ model }: CompletionRequest): void {
    if (this.#refusing.size >= maxModels) this.#refusing.clear()
    this.#refusing.add(model)
  }
}

function withoutUsage(options: CompletionRequest['stream_options']): StreamOptions | undefined {
  const { include_usage: _asked, ...others } = options ?? {}
  return Object.keys(others).length > 0 ? others : undefined
}

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
