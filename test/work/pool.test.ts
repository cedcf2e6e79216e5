import { readdirSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { machineClock, type Timer } from '../../src/clock.ts'
import { ApiError, toApiError } from '../../src/errors.ts'
import type { Job } from '../../src/work/job.ts'
import { type JobFault, type PoolOptions, WorkerPool } from '../../src/work/pool.ts'
import { TestClock } from '../support/clock.ts'
import { until } from '../support/eventually.ts'
import { often } from '../support/often.ts'
import {
  addJob,
  bombJob,
  cacheJob,
  costlyJob,
  echoJob,
  exitJob,
  failJob,
  gate,
  gateJob,
  leftJob,
  renamedJob,
  spinJob,
  transferJob,
  uncloneableJob,
} from './jobs.ts'

/** A clock that the test advances. Only the readings of CPU time and memory follow in real time. */
class PoolClock extends TestClock {
  override setTimeout(callback: () => void, milliseconds: number): Timer {
    return milliseconds === 50 ? machineClock.setTimeout(callback, 5) : super.setTimeout(callback, milliseconds)
  }
}

/** A pool that is closed after the test, with its clock and what it reported. */
function poolForThisTest(options: PoolOptions = {}) {
  const clock = new PoolClock()
  const faults: JobFault[] = []
  const pool = new WorkerPool({ clock, onFault: (fault) => faults.push(fault), ...options })
  onTestFinished(() => pool.close())
  const run = <I, O>(job: Job<I, O>, input: I, account = 1, signal?: AbortSignal): Promise<O> =>
    pool.run(job, input, { account, param: 'messages', ...(signal && { signal }) })
  return { pool, clock, faults, run }
}

/** What the caller of a refused job sees. */
async function refusalOf(result: Promise<unknown>): Promise<unknown> {
  const error = await result.then(
    () => expect.unreachable('the job has a result'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ApiError)) return error
  const { status, code, param, headers } = error
  return { status, code, param, headers }
}

const tooLarge = { status: 503, code: 'overloaded', param: 'messages', headers: { 'x-should-retry': 'false' } }
const overloaded = { status: 503, code: 'overloaded', param: null, headers: { 'retry-after': '1' } }
const quick = { maxCpuMs: 10, maxSlowCpuMs: 20 }

describe('a job in the pool', () => {
  it('gets a clone of its input, and gives a clone of its output', async () => {
    const { run } = poolForThisTest()
    const input = { text: 'grüß\ud800', list: [1, undefined, { deep: -0 }], map: new Map([['a', new Date(5)]]) }
    await expect(run(echoJob, input)).resolves.toStrictEqual(input)
    await expect(run(echoJob, undefined)).resolves.toBeUndefined()
  })

  it('gets shared bytes without a copy, and moves its transfers', async () => {
    const { run } = poolForThisTest()
    const bytes = Buffer.from(new SharedArrayBuffer(3))
    await expect(run(addJob, { bytes })).resolves.toBe(3)
    expect([...bytes]).toEqual([1, 1, 1])
    await expect(run(transferJob, 5)).resolves.toEqual({ bytes: new Uint8Array(5).fill(7), other: 'value' })
    await expect(run(leftJob, undefined)).resolves.toBe(0)
  })

  it('finds what an earlier job has kept in its thread', async () => {
    const { run } = poolForThisTest()
    const counts = []
    for (const digest of ['a', 'b', 'a']) counts.push(await run(cacheJob, digest))
    expect(counts).toEqual([1, 2, 1])
  })

  it('that fails gives its error with all fields', async () => {
    const { run, faults } = poolForThisTest()
    const error = await run(failJob, 'api').catch((thrown: unknown) => thrown)
    const { status, code, param, headers, message, cause } = error instanceof ApiError ? error : expect.unreachable()
    expect({ status, code, param, headers, message }).toEqual({
      status: 413,
      code: 'card_too_large',
      param: 'card',
      headers: { 'x-own': '1' },
      message: 'Send less.',
    })
    expect(cause).toMatchObject({
      message: 'inner',
      stack: expect.stringContaining('jobs.ts'),
      cause: { message: 'innermost' },
    })
    const plain = await run(failJob, 'plain').catch((thrown: unknown) => thrown)
    expect(plain).toMatchObject({
      message: 'broken',
      stack: expect.stringContaining('jobs.ts'),
      cause: { message: 'because' },
    })
    expect(toApiError(plain)).toMatchObject({ status: 500, code: 'internal_error' })
    await expect(run(failJob, 'text')).rejects.toThrow('only a text')
    await expect(run(uncloneableJob, undefined)).rejects.toThrow('could not be cloned')
    await expect(run(echoJob, () => {})).rejects.toThrow('could not be cloned')
    await expect(run(renamedJob, undefined)).rejects.toThrow('exports no job "otherName"')
    await expect(run({ ...echoJob, module: 'file:///no-module.ts' }, 1)).rejects.toThrow('no-module')
    // None of these errors costs a thread.
    await expect(run(echoJob, 1)).resolves.toBe(1)
    expect(faults).toEqual([])
  })

  it('has the units of one request', async () => {
    const { run } = poolForThisTest()
    await expect(run(costlyJob, 400_000_000)).resolves.toBe(400_000_000)
    const refusal = { status: 400, code: 'too_complex', param: 'messages', headers: {} }
    await expect(refusalOf(run(costlyJob, 400_000_001))).resolves.toEqual(refusal)
  })

  it('that takes too much CPU time runs once more in the slow lane, and is refused then', async () => {
    const { pool, run, faults } = poolForThisTest(quick)
    await expect(refusalOf(run(spinJob, undefined))).resolves.toEqual(tooLarge)
    const fault = { reason: 'time', job: 'spinJob', account: 1, param: 'messages' }
    expect(faults).toEqual([fault, fault])
    // The account is in the slow lane already.
    await expect(refusalOf(run(spinJob, undefined))).resolves.toEqual(tooLarge)
    expect(faults).toEqual([fault, fault, fault])
    expect(pool.endedJobs).toBe(3)
  })

  it('that takes too much memory is refused', async () => {
    const { run, faults } = poolForThisTest({ maxBytes: 64 * 1024 ** 2 })
    await expect(refusalOf(run(bombJob, 'ab,'))).resolves.toEqual(tooLarge)
    expect(faults).toEqual([{ reason: 'memory', job: 'bombJob', account: 1, param: 'messages' }])
    await expect(run(echoJob, 1)).resolves.toBe(1)
  })

  it('whose thread dies is refused, and the next job has a new thread', async () => {
    const { run, faults } = poolForThisTest()
    await expect(refusalOf(run(exitJob, undefined))).resolves.toEqual(tooLarge)
    expect(faults).toMatchObject([{ reason: 'died', error: { message: 'the worker has ended with code 3' } }])
    await expect(run(echoJob, 1)).resolves.toBe(1)
  })

  it('whose thread cannot start is refused', async () => {
    const error = new Error('no memory')
    const startThread = () => {
      throw error
    }
    const { pool, run, faults } = poolForThisTest({ startThread })
    await expect(refusalOf(run(echoJob, 1))).resolves.toEqual(overloaded)
    expect(faults).toEqual([{ reason: 'not_started', job: 'echoJob', account: 1, param: 'messages', error }])
    expect([pool.workers, pool.endedJobs]).toEqual([0, 0])
  })
})

/** Occupies one or both threads of a pool until the returned functions are called. */
async function occupied(run: ReturnType<typeof poolForThisTest>['run'], count: number) {
  const gates = Array.from({ length: count }, gate)
  const runs = gates.map((each) => run(gateJob, each.gate, 99))
  onTestFinished(async () => {
    for (const { open } of gates) open()
    await Promise.allSettled(runs)
  })
  return gates.map(({ open }) => open)
}

describe('the queue of the pool', () => {
  it('serves accounts in turn, and the jobs of one account in order', async () => {
    const { pool, run } = poolForThisTest()
    const [open] = await occupied(run, 2)
    const order: unknown[] = []
    const results = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) =>
      run(echoJob, name, name.charCodeAt(0)).then((output) => order.push(output)),
    )
    expect(pool.waiting).toBe(6)
    open?.()
    await Promise.all(results)
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  it('is bounded, for one account and for all', async () => {
    const { pool, run } = poolForThisTest({ maxWaiting: 3, maxWaitingOfAccount: 2 })
    const [open] = await occupied(run, 2)
    const waiting = [run(echoJob, 1, 1), run(echoJob, 2, 1)]
    await expect(refusalOf(run(echoJob, 3, 1))).resolves.toEqual(overloaded)
    waiting.push(run(echoJob, 4, 2))
    await expect(refusalOf(run(echoJob, 5, 3))).resolves.toEqual(overloaded)
    expect(pool.waiting).toBe(3)
    open?.()
    await expect(Promise.all(waiting)).resolves.toEqual([1, 2, 4])
  })

  it('refuses a job that has waited for 15 s', async () => {
    const { pool, clock, run } = poolForThisTest()
    await occupied(run, 2)
    const waiting = run(echoJob, 1)
    clock.advance(14_999)
    expect(pool.waiting).toBe(1)
    clock.advance(1)
    await expect(refusalOf(waiting)).resolves.toEqual(overloaded)
    expect(pool.waiting).toBe(0)
  })

  it('lets jobs of an account with an ended job wait behind all others, and never take the last thread, for 30 s', async () => {
    const { pool, clock, run } = poolForThisTest(quick)
    await refusalOf(run(spinJob, undefined, 1))
    const [open, openOther] = await occupied(run, 2)
    const order: unknown[] = []
    const note = (output: unknown) => order.push(output)
    const slow = run(echoJob, 'slow', 1).then(note)
    const others = [2, 3].map((account) => run(echoJob, account, account).then(note))
    open?.()
    await Promise.all(others)
    // One thread is free, and the other is occupied.
    expect([order, pool.waiting]).toEqual([[2, 3], 1])
    openOther?.()
    await slow
    await occupied(run, 1)
    clock.advance(30_000)
    await expect(run(echoJob, 'fast again', 1)).resolves.toBe('fast again')
  })

  it('moves the waiting jobs of an account to the slow lane with the job that was ended', async () => {
    const { run, faults } = poolForThisTest(quick)
    await occupied(run, 1)
    const attacks = Array.from({ length: 5 }, () => run(spinJob, undefined, 1))
    for (const attack of attacks) attack.catch(() => {})
    await until(() => faults.length === 1)
    await expect(run(echoJob, 1, 2)).resolves.toBe(1)
    expect(faults).toHaveLength(1)
  })
})

describe('an aborted job', () => {
  const reason = new Error('left')

  it('does not begin', async () => {
    const { pool, run } = poolForThisTest()
    await expect(run(echoJob, 1, 1, AbortSignal.abort(reason))).rejects.toBe(reason)
    await occupied(run, 2)
    const controller = new AbortController()
    const waiting = run(echoJob, 1, 1, controller.signal)
    controller.abort(reason)
    expect(pool.waiting).toBe(0)
    await expect(waiting).rejects.toBe(reason)
  })

  it('that runs ends by itself, and its thread runs the next job', async () => {
    const { run, faults } = poolForThisTest()
    await occupied(run, 1)
    const held = gate()
    const controller = new AbortController()
    const running = run(gateJob, held.gate, 1, controller.signal)
    controller.abort(reason)
    await expect(running).rejects.toBe(reason)
    const next = run(echoJob, 'next')
    held.open()
    await expect(next).resolves.toBe('next')
    expect(faults).toEqual([])
  })

  it('that takes too much time does not run again', async () => {
    const { pool, run, faults } = poolForThisTest(quick)
    const controller = new AbortController()
    const running = run(spinJob, undefined, 1, controller.signal)
    controller.abort(reason)
    await expect(running).rejects.toBe(reason)
    await until(() => faults.length === 1 && pool.workers === 0)
    expect(pool.waiting).toBe(0)
  })
})

describe('the threads of the pool', () => {
  it('start when they are needed, and end after 30 s without a job', async () => {
    const { pool, clock, run } = poolForThisTest()
    expect(pool.workers).toBe(0)
    await run(echoJob, 1)
    await run(echoJob, 1)
    expect(pool.workers).toBe(1)
    await Promise.all([1, 2, 3].map((each) => run(echoJob, each)))
    expect(pool.workers).toBe(2)
    clock.advance(29_999)
    // Only the thread that was used last goes on.
    await run(echoJob, 1)
    clock.advance(1)
    await until(() => pool.workers === 1)
    clock.advance(29_998)
    expect(pool.workers).toBe(1)
    clock.advance(1)
    await until(() => pool.workers === 0)
    await expect(run(echoJob, 2)).resolves.toBe(2)
  })

  it('end with the pool: waiting, running and later jobs are refused', async () => {
    const { pool, run, faults } = poolForThisTest()
    const running = [run(spinJob, undefined), run(spinJob, undefined), run(echoJob, 1)].map(refusalOf)
    await pool.close()
    await expect(Promise.all(running)).resolves.toEqual([overloaded, overloaded, overloaded])
    await expect(refusalOf(run(echoJob, 1))).resolves.toEqual(overloaded)
    expect([pool.workers, pool.waiting, faults]).toEqual([0, 0, []])
  })

  it('that are ended again and again by time and by memory leave nothing behind, and no other job fails', {
    timeout: 300_000,
  }, async () => {
    const pools = [poolForThisTest({ maxCpuMs: 10, maxSlowCpuMs: 10 }), poolForThisTest({ maxBytes: 32 * 1024 ** 2 })]
    const attack = async ({ run }: (typeof pools)[number], index: number) => {
      const ended = refusalOf(index === 0 ? run(spinJob, undefined) : run(bombJob, 'ab,'))
      await expect(run(echoJob, 'other', 2)).resolves.toBe('other')
      await expect(ended).resolves.toEqual(tooLarge)
    }
    /** The threads of this process besides those of the pools, and the resources that keep it alive. */
    const leftovers = async () => {
      for (const { run, pool, clock } of pools) {
        await run(echoJob, 1, 2)
        clock.advance(30_000)
        await until(() => pool.workers === 0)
      }
      return { threads: readdirSync('/proc/self/task').length, resources: process.getActiveResourcesInfo().toSorted() }
    }
    // V8 and libuv start threads of their own in the first round.
    await Promise.all(pools.map(attack))
    const before = await leftovers()
    const rounds = often(10)
    for (let count = 0; count < rounds; count++) await Promise.all(pools.map(attack))
    const after = await leftovers()
    expect(after.resources).toEqual(before.resources)
    expect(after.threads).toBeLessThanOrEqual(before.threads)
    const reasons = pools.map(({ faults }) => faults.map(({ reason }) => reason))
    // Two jobs ran in the slow lane too: the first, and the first after the 30 s of `leftovers`.
    expect(reasons).toEqual([Array(rounds + 3).fill('time'), Array(rounds + 1).fill('memory')])
  })
})
