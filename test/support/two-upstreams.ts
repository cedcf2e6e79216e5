import { afterAll, beforeAll, beforeEach } from 'vitest'
import { TestClock } from './clock.ts'
import { startTestService, type TestService } from './service.ts'
import { completion, json, pieces, type Script, type ScriptedUpstream, startUpstream, streamOf } from './upstream.ts'

/** The default messages of requests. */
export const messages = [{ role: 'user', content: 'Hello' }]
/** The values of `stream`: a whole reply and a streamed reply. */
export const modes = [false, true]

/** Answers with a success, whole or streamed as requested. */
export const answering =
  (text: string): Script =>
  (response, call) =>
    call.body['stream'] === true ? pieces(streamOf(text))(response, call) : json(completion(text))(response, call)
/** Answers with an error of this status. */
export const failing = (status: number, headers: Record<string, string> = {}): Script =>
  json({ error: { message: 'No.' } }, status, headers)
/** Resets the connection instead of an answer. */
export const dropping: Script = (response) => void response.socket?.resetAndDestroy()
/** Never answers. */
export const hanging: Script = () => {}

/** Timeouts in milliseconds. For each timeout there is a model of the same name that has only this timeout. */
export const limits = { firstToken: 60, total: 120, idle: 250 }

/** The upstream of all models except `two` and `pre/*`. Unless a test changes this, its answers are successes. */
export let first: ScriptedUpstream
/** The upstream of the models `two` and `pre/*`. */
export let second: ScriptedUpstream
/** The service in front of both upstreams. */
export let service: TestService
/** A second service in front of both upstreams, with the clock `clock`. */
export let timed: TestService
/** The clock of `timed`, which stands still until the test advances it. */
export let clock: TestClock

/** Starts the upstreams and the services for all tests of the calling file, and stops them at the end of the file. */
export function twoUpstreamsForThisFile(): void {
  beforeAll(async () => {
    first = await startUpstream()
    second = await startUpstream()
    const one = { adapter: 'openai', baseUrl: first.url, retries: 0, breaker: { failures: 0 } }
    const two = { ...one, baseUrl: second.url }
    const models = {
      one: { ...one, model: 'first-model' },
      two: { ...two, model: 'second-model', defaults: { temperature: 0.25 } },
      'pre/*': two,
      list: { fallback: ['one', 'two'] },
      nested: { fallback: ['list', 'understudy'] },
      understudy: { adapter: 'understudy' },
      retried: { ...one, retries: 3 },
      twice: { ...one, retries: 1 },
      defaults: { ...one, defaults: { temperature: 0.5, stop: ['x'], frobnicate: { a: 1 }, n: 2 } },
      texts: { ...one, input: ['text'] },
      narrow: { ...one, contextWindow: 8 },
      sighted: { fallback: ['narrow', 'texts', 'two'] },
      helpless: { fallback: ['texts', 'narrow'] },
      pictures: { ...one, input: ['text', 'image'] },
      headed: { ...one, apiKey: 'k', headers: { 'x-team': 'plants', 'api-key': 'azure' } },
      firstToken: { ...one, timeouts: { firstToken: limits.firstToken } },
      total: { ...one, timeouts: { total: limits.total } },
      idle: { ...one, timeouts: { idle: limits.idle } },
      impatient: { fallback: ['firstToken', 'two'] },
    }
    service = await startTestService({}, models)
    clock = new TestClock()
    timed = await startTestService({}, models, { clock })
  })

  beforeEach(() => {
    for (const upstream of [first, second]) upstream.calls.length = 0
    first.answer(answering('From the first.'))
    second.answer(answering('From the second.'))
  })

  afterAll(async () => {
    await service?.close()
    await timed?.close()
    await first?.close()
    await second?.close()
  })
}

/** Requests a completion, by default from the first service. */
export function post(body: Readonly<Record<string, unknown>>, at = service, signal?: AbortSignal): Promise<Response> {
  return at.request('/chat/completions', { json: { messages, ...body }, ...(signal ? { signal } : {}) })
}

/**
 * Sends a request to the second upstream. After its reply, all earlier messages between `timed` and its upstreams have arrived.
 */
export async function meanwhile(): Promise<void> {
  const before = second.calls.length
  await (await post({ model: 'two' }, timed)).text()
  second.calls.length = before
}

/** The numbers of calls of the first and the second upstream in this test. */
export function callCounts(): readonly number[] {
  return [first.calls.length, second.calls.length]
}
