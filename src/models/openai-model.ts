import type { Clock } from '../clock.ts'
import type { OpenAiSettings } from './configuration/settings.ts'
import type { Model, ModelRequest } from './model.ts'
import { isCompletion, maximumAnswer, parseAnswer } from './upstream/answer.ts'
import { UpstreamConnections, type UpstreamResponse } from './upstream/connections.ts'
import { failureOf, refusalOf, upstreamFailure } from './upstream/errors.ts'
import { readEvents } from './upstream/event-stream.ts'
import { requestBytes } from './upstream/request-bytes.ts'

/** Milliseconds. The other time limits are the candidate's. */
const connectTimeout = 10_000

/** Relays to any service that answers `POST {baseUrl}/chat/completions` as OpenAI does. */
export function createOpenAiModel({ baseUrl, apiKey, headers: more, timeouts }: OpenAiSettings, clock: Clock): Model {
  const url = new URL(`${baseUrl.replace(/\/+$/, '')}/chat/completions`)
  const connections = new UpstreamConnections(url.origin, timeouts?.connect ?? connectTimeout, clock)
  const headers = {
    'content-type': 'application/json',
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    // Whatever case they are written in, they take the place of the above.
    ...Object.fromEntries(Object.entries(more ?? {}).map(([name, value]) => [name.toLowerCase(), value])),
  }

  // Short values are no secrets, and would be found in any sentence.
  const secrets = [apiKey ?? '', ...Object.values(more ?? {})].filter((value) => value.length >= 8)

  const ask = async ({ body, trace }: ModelRequest, signal: AbortSignal): Promise<UpstreamResponse> => {
    try {
      const response = await connections.post(
        url.pathname,
        trace ? { ...headers, ...trace } : headers,
        requestBytes(body),
        signal,
      )
      if (response.status === 200) return response
      throw await refusalOf(response, secrets)
    } catch (error) {
      throw failureOf(error)
    }
  }

  return {
    ignoredParameters: null,

    async complete(request, signal) {
      const response = await ask(request, signal)
      try {
        const bytes = await response.bytes(maximumAnswer)
        const completion = parseAnswer(bytes.toString('utf8'))
        if (isCompletion(completion)) return { completion, bytes }
      } catch (error) {
        throw failureOf(error, true)
      }
      throw upstreamFailure(502, 'upstream_error', 'The answer of the model was not understood. Ask again.')
    },

    stream(request, signal) {
      const { n, stream_options: options } = request.body
      return readEvents(ask(request, signal), { choices: n ?? 1, readAll: options?.include_usage === true })
    },

    close: () => connections.close(),
  }
}
