import type { Clock } from '../clock.ts'
import { field, isFields, listIn } from '../fields.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { defaultConnectTimeoutMs } from '../outbound.ts'
import type { Proxies } from '../proxies.ts'
import { workAtOnce } from '../work.ts'
import type { OpenAiSettings } from './configuration/settings.ts'
import type { Model, ModelRequest } from './model.ts'
import { isCompletion, parseAnswer, readAnswer, readWhole } from './upstream/answer.ts'
import { UpstreamConnections } from './upstream/connections.ts'
import { decompressed } from './upstream/decompressed.ts'
import { failureOf, invalidAnswer, readRefusal, refusalFrom } from './upstream/errors.ts'
import { readEvents } from './upstream/event-stream.ts'
import { requestBytes } from './upstream/request-bytes.ts'
import { StreamUsage } from './upstream/stream-usage.ts'
import type { UpstreamAnswer } from './upstream/streamless-response.ts'
import { turnScheduler, unitsOf } from './upstream/turn-scheduler.ts'

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
  const url = new URL(`${baseUrl.replace(/(?<!\/)\/*$/, '')}/chat/completions`)
  const connectTimeout = timeouts?.connect ?? defaultConnectTimeoutMs
  const connections = new UpstreamConnections(url.origin, connectTimeout, clock, proxies.of(url))
  const streamUsage = new StreamUsage(isAskedForUsage)
  const headers = headersOf(apiKey, configuredHeaders)
  // A short value is not secret, and if it were removed, ordinary sentences would be damaged.
  const secrets = [apiKey ?? '', ...Object.values(configuredHeaders ?? {})].filter((value) => value.length >= 8)

  const post = async (request: ModelRequest, body: CompletionRequest, signal: AbortSignal): Promise<UpstreamAnswer> => {
    const sent = request.trace ? { ...headers, ...request.trace } : headers
    const written = request.work.run('messages', requestBytes(body))
    const bytes = written instanceof Promise ? await written : written
    return decompressed(await connections.post(url.pathname, sent, bytes, signal, () => request.onSent?.(true)))
  }

  const accepted = (answer: UpstreamAnswer): UpstreamAnswer | Promise<never> =>
    answer.status === 200 ? answer : refused(answer)

  const refused = async (answer: UpstreamAnswer): Promise<never> => {
    throw refusalFrom(await readRefusal(answer), secrets)
  }

  const ask = async (request: ModelRequest, signal: AbortSignal): Promise<UpstreamAnswer> => {
    try {
      return await post(request, request.body, signal).then(accepted)
    } catch (error) {
      throw failureOf(error)
    }
  }

  const askForStream = async (request: ModelRequest, signal: AbortSignal): Promise<UpstreamAnswer> => {
    try {
      const asked = streamUsage.withUsage(request.body)
      const response = await post(request, asked, signal)
      if (response.status === 200) return response
      const refusal = await readRefusal(response)
      const again = streamUsage.retryWithoutUsage(asked, refusal)
      if (!again) throw refusalFrom(refusal, secrets)
      const answer = await accepted(await post(request, again, signal))
      streamUsage.rememberRefusal(again)
      return answer
    } catch (error) {
      throw failureOf(error)
    }
  }

  return {
    ignoredParameters: null,

    async complete(request, signal) {
      const response = await ask(request, signal)
      const held = request.openHeld?.()
      try {
        const bytes = await readWhole(response, request.work, held)
        const turn = turnScheduler.take(unitsOf(bytes.length))
        if (turn) await turn
        const isPassedOn = request.isRewritten !== true
        const completion = readAnswer(bytes, secrets, isPassedOn)
        if (isCompletion(completion)) return isPassedOn ? { completion, bytes } : { completion }
      } catch (error) {
        throw failureOf(error, true)
      } finally {
        held?.release()
      }
      throw invalidAnswer()
    },

    stream(request, signal) {
      const choices = request.body.n ?? 1
      const readAll = choices > 1 || request.readAll === true
      return readEvents(askForStream(request, signal), { choices, readAll, secrets, openHeld: request.openHeld })
    },

    async list(signal) {
      const { 'content-type': _ofBodies, ...more } = headers
      const path = `${new URL(baseUrl).pathname.replace(/(?<!\/)\/*$/, '')}/models`
      const response = await accepted(decompressed(await connections.get(path, more, signal)))
      return idsIn(parseAnswer((await readWhole(response, workAtOnce())).toString('utf8'), secrets))
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
