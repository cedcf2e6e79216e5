import { describe, expect, it, onTestFinished } from 'vitest'
import { inlineUnits, maxUnits, tooComplex } from '../../src/work/fuel.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { Works, workAtOnce } from '../../src/work/work.ts'
import { TestClock } from '../support/clock.ts'
import { costlyJob, failJob, leftJob, spendJob, transferJob } from './jobs.ts'

function worksForThisTest() {
  const clock = new TestClock()
  const pool = new WorkerPool({ clock })
  onTestFinished(() => pool.close())
  return { clock, pool, works: new Works(pool, clock) }
}

const refusal = tooComplex('messages')

describe('the work of a request', () => {
  it('runs here without a wait while its units last, and then in the pool, from the same input', async () => {
    const { pool, works } = worksForThisTest()
    const work = works.workOf({ account: 1 })
    expect(work.run('messages', spendJob, inlineUnits - 10)).toBe(inlineUnits - 10)
    expect(work.run('messages', spendJob, 10)).toBe(10)
    expect(pool.workers).toBe(0)
    const moved = work.run('messages', spendJob, 1)
    expect(moved).toBeInstanceOf(Promise)
    await expect(moved).resolves.toBe(1)
    expect(pool.workers).toBe(1)
  })

  it('goes to the pool at once for 30 s after its account spent the units of a request', async () => {
    const { clock, works } = worksForThisTest()
    await expect(works.workOf({ account: 1 }).run('messages', spendJob, inlineUnits + 1)).resolves.toBe(inlineUnits + 1)
    const where = (account: number) => works.workOf({ account }).run('messages', costlyJob, 1)
    const inPool = where(1)
    expect([where(2), inPool]).toEqual([1, expect.any(Promise)])
    await inPool
    clock.advance(29_999)
    const stillInPool = where(1)
    expect(stillInPool).toBeInstanceOf(Promise)
    await stillInPool
    clock.advance(1)
    expect(where(1)).toBe(1)
  })

  it('for large input runs in the pool, and spends no units of small work', async () => {
    const { works } = worksForThisTest()
    const work = works.workOf({ account: 1 })
    await expect(work.runInPool('messages', costlyJob, inlineUnits + 1)).resolves.toBe(inlineUnits + 1)
    expect(work.run('messages', costlyJob, inlineUnits)).toBe(inlineUnits)
  })

  it('that spends its whole budget gets the same 400 from the pool and in a command', async () => {
    const { works } = worksForThisTest()
    await expect(works.workOf({ account: 1 }).run('messages', costlyJob, maxUnits + 1)).rejects.toThrow(refusal)
    expect(() => workAtOnce().run('messages', costlyJob, maxUnits + 1)).toThrow(refusal)
    await expect(workAtOnce().runInPool('messages', costlyJob, maxUnits + 1)).rejects.toThrow(refusal)
    expect(workAtOnce().run('messages', costlyJob, maxUnits)).toBe(maxUnits)
  })

  it('that fails here passes its error on, and does not run again', () => {
    const { pool, works } = worksForThisTest()
    expect(() => works.workOf({ account: 1 }).run('messages', failJob, 'plain')).toThrow('broken')
    expect(pool.workers).toBe(0)
  })

  it('of an aborted request does not begin', () => {
    const { works } = worksForThisTest()
    const reason = new Error('left')
    const work = works.workOf({ account: 1, signal: AbortSignal.abort(reason) })
    expect(() => work.run('messages', transferJob, 3)).toThrow(reason)
    expect(workAtOnce().run('messages', leftJob, undefined)).toBe(0)
  })
})
