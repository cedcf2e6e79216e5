import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import { TestClock } from './clock.ts'
import { onceAsked, startTestService, type TestService } from './service.ts'
import { completion, json, type ScriptedUpstream, startUpstream, type UpstreamCall } from './upstream.ts'

/** The key of the upstream. It fits no pattern of known keys, so only a comparison can remove it from texts. */
export const secret = 'the+canary/of=tests'
/** The upstream of the running test file. Its list of calls is emptied before each test. */
export let upstream: ScriptedUpstream
/** The service in front of the upstream. */
export let service: TestService

/**
 * Starts the upstream and the service for all tests of the calling file, and stops them at the end of the file.
 * @param modelsOf the models of the service, from the URL of the upstream. By default there is one model, and the service's clock
 *   stands still, so that no machine is too slow for a timeout
 */
export function upstreamServiceForThisFile(modelsOf?: (url: string) => Readonly<Record<string, unknown>>): void {
  beforeAll(async () => {
    upstream = await startUpstream()
    service = modelsOf
      ? await startTestService({}, modelsOf(upstream.url))
      : await startTestService({}, onceAsked(upstream.url, secret), { clock: new TestClock() })
  })

  beforeEach(() => {
    upstream.calls.length = 0
    upstream.answer(json(completion('Hello there.')))
  })

  afterAll(async () => {
    await service?.close()
    await upstream?.close()
  })
}

/** The default messages of requests. */
export const messages = [{ role: 'user', content: 'Hello' }]

/** Requests a completion from the upstream. */
export function post(body: Readonly<Record<string, unknown>> = {}, signal?: AbortSignal): Promise<Response> {
  const sent = { model: 'gpt-test', messages, ...body }
  return service.request('/chat/completions', { json: sent, ...(signal ? { signal } : {}) })
}

/** The only call of the upstream. @throws Error unless there is exactly one */
export function onlyCall(): UpstreamCall {
  expect(upstream.calls).toHaveLength(1)
  const [call] = upstream.calls
  if (!call) throw new Error('the upstream was not called')
  return call
}

/** Resolves when all earlier messages between the service and its upstream have arrived: it waits for another request. */
export async function meanwhile(): Promise<void> {
  await (await post({ model: 'understudy' })).text()
}

/** Waits for the first call of the upstream, and returns it. @throws Error if there are more calls */
export async function untilCalled(): Promise<UpstreamCall> {
  await upstream.called(1)
  return onlyCall()
}

/** Calls a function for every offset from 0 to a length, 24 in parallel. */
export async function eachOffset(length: number, action: (offset: number) => Promise<void>): Promise<void> {
  const offsets = Array.from({ length: length + 1 }, (_, offset) => offset).values()
  const worker = async () => {
    for (const offset of offsets) await action(offset)
  }
  await Promise.all(Array.from({ length: 24 }, worker))
}
