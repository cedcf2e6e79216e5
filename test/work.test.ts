import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toApiError } from '../src/errors.ts'
import { turnOfLoop } from '../src/turn.ts'
import { Scheduler, type Steps, workAtOnce } from '../src/work.ts'

/** A clock of the test, and steps that advance it. */
class Clock {
  ms = 0
  /** The turn of the event loop of the last step, and the milliseconds of all steps in that turn. */
  #turn = -1
  #taken = 0
  /** The most milliseconds of the steps in one turn. */
  most = 0
  readonly now = () => this.ms

  /** Waits until no steps wait any more. */
  async untilCalm(scheduler: Scheduler): Promise<void> {
    while (scheduler.waiting > 0) await new Promise((resolve) => setImmediate(resolve))
  }

  *steps(count: number, msEach: number, onStep: () => void = () => {}): Steps<string> {
    for (let step = 0; step < count; step++) {
      const turn = turnOfLoop()
      if (turn !== this.#turn) {
        this.#turn = turn
        this.#taken = 0
      }
      this.ms += msEach
      this.#taken += msEach
      this.most = Math.max(this.most, this.#taken)
      onStep()
      yield 2000
    }
    return 'done'
  }
}

/** The result of a call, or the status, code and field of its refusal. */
async function refusalOf(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call()
  } catch (error) {
    const { status, code, param } = toApiError(error)
    return [status, code, param]
  }
}

describe('work', () => {
  it('is done without a wait if one slice is enough', () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    expect(scheduler.workOf({ account: 1 }).run('messages', clock.steps(4, 1))).toBe('done')
    expect(scheduler.waiting).toBe(0)
  })

  it('takes a bounded part of each turn of the event loop, for all requests together', async () => {
    const runs = fc.array(
      fc.record({ account: fc.nat(5), count: fc.integer({ min: 1, max: 40 }), msEach: fc.integer({ min: 1, max: 3 }) }),
      { minLength: 1, maxLength: 20 },
    )
    await fc.assert(
      fc.asyncProperty(runs, async (all) => {
        const clock = new Clock()
        const scheduler = new Scheduler(clock.now)
        const results = all.map(({ account, count, msEach }) =>
          scheduler.workOf({ account }).run('messages', clock.steps(count, msEach)),
        )
        await clock.untilCalm(scheduler)
        expect(await Promise.all(results)).toEqual(all.map(() => 'done'))
        // The last step of a turn begins within the 15 ms, and takes up to 3 ms.
        expect(clock.most).toBeLessThan(15 + 3)
      }),
      { numRuns: 50 },
    )
  })

  it('gives accounts equal shares, however many requests each has', async () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    const taken = { 1: 0, 2: 0 }
    const run = (account: 1 | 2) =>
      scheduler.workOf({ account }).run(
        'messages',
        clock.steps(100, 1, () => taken[account]++),
      )
    const greedy = Array.from({ length: 50 }, () => run(1))
    await run(2)
    // The account with many requests had a slice for each slice of the other account, and some slices before.
    expect(taken[1]).toBeLessThan(taken[2] + 3 * 15)
    await clock.untilCalm(scheduler)
    await Promise.all(greedy)
  })

  it('of an account is behind if many of its slices have waited for long, and other accounts are not', async () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    const run = (account: number) => scheduler.workOf({ account }).run('messages', clock.steps(10, 1))
    const first = Array.from({ length: 17 }, () => run(1))
    expect(scheduler.isBehind(1)).toBe(false)
    clock.ms += 21
    expect(scheduler.isBehind(1)).toBe(true)
    const few = Array.from({ length: 15 }, () => run(2))
    clock.ms += 21
    expect([2, 3].map((account) => scheduler.isBehind(account))).toEqual([false, false])
    await clock.untilCalm(scheduler)
    await Promise.all([...first, ...few])
    expect(scheduler.isBehind(1)).toBe(false)
  })

  it('gets a 400 that names the field when it exceeds its budget', async () => {
    const steps = function* (): Steps<void> {
      for (;;) yield 1_000_000
    }
    const scheduler = new Scheduler(() => 0)
    await expect(refusalOf(async () => scheduler.workOf({ account: 1 }).run('character', steps()))).resolves.toEqual([
      400,
      'too_complex',
      'character',
    ])
    await expect(refusalOf(async () => workAtOnce().run('character', steps()))).resolves.toEqual([
      400,
      'too_complex',
      'character',
    ])
  })

  it('has one budget for the whole request', async () => {
    const clock = new Clock()
    const work = new Scheduler(clock.now).workOf({ account: 1 })
    const most = function* (): Steps<string> {
      yield 300_000_000
      return 'done'
    }
    expect(work.run('messages', most())).toBe('done')
    expect(await refusalOf(async () => work.run('tools', most()))).toEqual([400, 'too_complex', 'tools'])
  })

  it('ends when its signal aborts', async () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    const controller = new AbortController()
    let steps = 0
    const result = scheduler.workOf({ account: 1, signal: controller.signal }).run(
      'messages',
      clock.steps(1000, 1, () => steps++),
    )
    controller.abort(new Error('left'))
    await expect(result).rejects.toThrow('left')
    const before = steps
    await clock.untilCalm(scheduler)
    expect(steps).toBe(before)
  })

  it('gets a 503 when it waits too long for other work', async () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    const long = [1, 2].map((account) => scheduler.workOf({ account }).run('messages', clock.steps(15_000, 1)))
    const ends = await Promise.all(long.map((each) => refusalOf(async () => each)))
    expect(ends).toContainEqual([503, 'overloaded', null])
  })

  it('is reported with its field and account if one step takes longer than 250 ms, also when it is the last step or fails', async () => {
    const clock = new Clock()
    const reported: unknown[] = []
    const work = new Scheduler(clock.now, (slice) => reported.push(slice)).workOf({ account: 7 })
    await work.run('messages', clock.steps(1, 250))
    expect(reported).toEqual([])
    await work.run('lorebooks', clock.steps(1, 251))
    const failing = function* (): Steps<void> {
      yield* clock.steps(1, 300)
      throw new Error('no')
    }
    await expect(async () => work.run('name', failing())).rejects.toThrow('no')
    expect(reported).toEqual([
      { param: 'lorebooks', account: 7, ms: 251 },
      { param: 'name', account: 7, ms: 300 },
    ])
  })

  describe('that cannot go on runs the `finally` blocks of its steps once', () => {
    /** Steps in two `finally` blocks. */
    function* holding(ends: string[]): Steps<void> {
      try {
        try {
          for (;;) yield 100_000
        } finally {
          ends.push('inner')
        }
      } finally {
        ends.push('outer')
      }
    }

    /** The `finally` blocks that run when the steps end too early, and in the next turn. */
    async function endsOf(run: (steps: Steps<void>, clock: Clock) => Promise<unknown>) {
      const clock = new Clock()
      const ends: string[] = []
      await expect(run(holding(ends), clock)).rejects.toThrow()
      await new Promise((resolve) => setImmediate(resolve))
      return ends
    }

    it('when its signal aborts', async () => {
      const ends = await endsOf(async (steps, clock) => {
        const controller = new AbortController()
        const now = () => clock.ms++
        const result = new Scheduler(now).workOf({ account: 1, signal: controller.signal }).run('messages', steps)
        controller.abort(new Error('left'))
        return result
      })
      expect(ends).toEqual(['inner', 'outer'])
    })

    it('when it exceeds its budget', async () => {
      const ends = await endsOf(async (steps, clock) => new Scheduler(clock.now).workOf({ account: 1 }).run('x', steps))
      expect(ends).toEqual(['inner', 'outer'])
      expect(await endsOf(async (steps) => workAtOnce().run('x', steps))).toEqual(['inner', 'outer'])
    })

    it('when it waits too long', async () => {
      const ends = await endsOf(async (steps, clock) => {
        const now = () => clock.ms++
        const result = new Scheduler(now).workOf({ account: 1 }).run('messages', steps)
        clock.ms += 20_000
        return result
      })
      expect(ends).toEqual(['inner', 'outer'])
    })

    it('when a step throws', async () => {
      const ends: string[] = []
      const failing = function* (): Steps<void> {
        try {
          yield 1
          throw new Error('broken')
        } finally {
          ends.push('own')
        }
      }
      expect(() => workAtOnce().run('messages', failing())).toThrow('broken')
      expect(ends).toEqual(['own'])
    })

    it('and never goes on after steps of another generator, even if their `finally` block yields', async () => {
      const ends: string[] = []
      const inner = function* (): Steps<void> {
        try {
          for (;;) yield 100_000
        } finally {
          yield 1
        }
      }
      const outer = function* (): Steps<void> {
        try {
          yield* inner()
          ends.push('has gone on')
        } finally {
          ends.push('outer')
        }
      }
      expect(await refusalOf(async () => workAtOnce().run('x', outer()))).toEqual([400, 'too_complex', 'x'])
      expect(ends).toEqual(['outer'])
    })

    it('unless no step has begun', async () => {
      const ends = await endsOf(async (steps, clock) => {
        const signal = AbortSignal.abort(new Error('left'))
        return new Scheduler(clock.now).workOf({ account: 1, signal }).run('messages', steps)
      })
      expect(ends).toEqual([])
    })
  })

  it('that fails passes the error to its caller, and the work of other requests continues', async () => {
    const clock = new Clock()
    const scheduler = new Scheduler(clock.now)
    const failing = scheduler.workOf({ account: 1 }).run(
      'messages',
      clock.steps(20, 1, () => {
        if (clock.ms > 10) throw new Error('broken')
      }),
    )
    const other = scheduler.workOf({ account: 2 }).run('messages', clock.steps(20, 1))
    await expect(failing).rejects.toThrow('broken')
    await expect(other).resolves.toBe('done')
  })
})
