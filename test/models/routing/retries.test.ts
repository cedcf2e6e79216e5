import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Clock } from '../../../src/clock.ts'
import { ApiError, overloaded } from '../../../src/errors.ts'
import type { Model, ModelRequest } from '../../../src/models/model.ts'
import { Breaker } from '../../../src/models/routing/breaker.ts'
import { Candidate, type CandidateTraits } from '../../../src/models/routing/candidate.ts'
import { workAtOnce } from '../../../src/work/work.ts'

/** The length of each pause. The clock below ends every pause immediately. */
const pauses: number[] = []

const clock: Clock = {
  now: () => 0,
  setTimeout(callback, milliseconds) {
    // The deadlines of an attempt use this clock too, and never pass.
    if (milliseconds < 60_000) {
      pauses.push(milliseconds)
      queueMicrotask(callback)
    }
    return { refresh: () => {}, close: () => {} }
  },
}

const request: ModelRequest = {
  body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
  persona: { name: null, card: null, userName: 'User' },
  work: workAtOnce(),
}

beforeEach(() => {
  pauses.length = 0
})

afterEach(() => {
  vi.restoreAllMocks()
})

/** A candidate whose model fails with this error. */
function failing(error: () => ApiError, retries?: number, breaker: Breaker | null = null): Candidate {
  const model: Model = {
    ignoredParameters: new Set(),
    complete: () => Promise.reject(error()),
    // biome-ignore lint/correctness/useYield: it only fails
    async *stream() {
      throw error()
    },
  }
  const traits: CandidateTraits = { name: 'm', upstreamId: 'm', ...(retries === undefined ? {} : { retries }) }
  return new Candidate(traits, model, breaker, undefined, clock)
}

const broken = (headers: Record<string, string> = {}) => new ApiError(502, 'upstream_error', 'It failed.', { headers })

async function pausesOf(candidate: Candidate): Promise<readonly number[]> {
  pauses.length = 0
  const { signal } = new AbortController()
  await expect(candidate.complete(request, signal)).rejects.toThrow(ApiError)
  const whole = [...pauses]
  pauses.length = 0
  await expect(candidate.open(request, signal)).rejects.toThrow(ApiError)
  expect(pauses).toHaveLength(whole.length)
  return whole
}

describe('the pauses between attempts', () => {
  test.each([
    [0, [125, 250, 500, 1000, 2000]],
    [0.5, [250, 500, 1000, 2000, 4000]],
    [0.999999, [375, 750, 1500, 3000, 6000]],
  ])('double, with a jitter of 50 % (random: %d)', async (random, expected) => {
    vi.spyOn(Math, 'random').mockReturnValue(random)
    expect((await pausesOf(failing(broken, 5))).map((pause) => Math.round(pause))).toEqual(expected)
  })

  test.each([0, 0.5, 0.999999])('are at most 8 s, and as many as the settings say (random: %d)', async (random) => {
    vi.spyOn(Math, 'random').mockReturnValue(random)
    const waited = await pausesOf(failing(broken, 10))
    expect(waited).toHaveLength(10)
    expect(Math.max(...waited)).toBeLessThanOrEqual(8000)
  })

  test('differ between two requests', async () => {
    const [first, second] = [await pausesOf(failing(broken, 3)), await pausesOf(failing(broken, 3))]
    expect(first).not.toEqual(second)
  })

  test('are two by default, and none with 0 retries', async () => {
    expect(await pausesOf(failing(broken))).toHaveLength(2)
    expect(await pausesOf(failing(broken, 0))).toEqual([])
  })

  test.each([
    ['0', [0, 0]],
    ['3', [3000, 3000]],
    ['0.5', [500, 500]],
    ['8', [8000, 8000]],
    ['9', []],
  ])('are as long as Retry-After says: %s', async (seconds, expected) => {
    expect(await pausesOf(failing(() => broken({ 'retry-after': seconds })))).toEqual(expected)
  })

  test('are as long as retry-after-ms says, which is more precise', async () => {
    expect(await pausesOf(failing(() => broken({ 'retry-after': '1', 'retry-after-ms': '40' })))).toEqual([40, 40])
    expect(await pausesOf(failing(() => broken({ 'retry-after': '9', 'retry-after-ms': '8001' })))).toEqual([])
  })

  test.each([
    [400, 'invalid_field'],
    [404, 'model_not_found'],
    [499, 'client_gone'],
    [500, 'internal_error'],
    [502, 'upstream_auth_error'],
    [503, 'model_unavailable'],
    [504, 'upstream_timeout'],
  ])('do not follow a failure that a retry cannot help: %i %s', async (status, code) => {
    expect(await pausesOf(failing(() => new ApiError(status, code, 'No.')))).toEqual([])
  })
})

test('an answer for which this service has no room is not retried, and does not open the breaker', async () => {
  const breaker = new Breaker(clock, { failures: 1 })
  const candidate = failing(() => overloaded(), 2, breaker)
  const signal = new AbortController().signal
  await expect(candidate.complete(request, signal)).rejects.toMatchObject({ code: 'overloaded' })
  await expect(candidate.open(request, signal)).rejects.toMatchObject({ code: 'overloaded' })
  expect(pauses).toEqual([])
  expect(breaker.state).toBe('closed')
})
