import { describe, expect, it } from 'vitest'
import { toApiError } from '../../src/errors.ts'
import { Reports } from '../../src/usage/plugin.ts'

/** A report that the test ends. */
function report() {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let isBegun = false
  const make = () => {
    isBegun = true
    return promise
  }
  return { make, resolve, reject, isBegun: () => isBegun }
}

const laterTurn = () => new Promise((resolve) => setImmediate(resolve))

describe('reports', () => {
  it('of one account are made one after the other, and reports of different accounts in parallel', async () => {
    const reports = new Reports()
    const [first, second, other] = [report(), report(), report()]
    const made = [reports.make(1, first.make), reports.make(1, second.make), reports.make(2, other.make)]
    await laterTurn()
    expect([first.isBegun(), second.isBegun(), other.isBegun()]).toEqual([true, false, true])
    first.reject(new Error('broken'))
    await expect(made[0]).rejects.toThrow('broken')
    await laterTurn()
    expect(second.isBegun()).toBe(true)
    second.resolve('second')
    other.resolve('other')
    expect(await Promise.all(made.slice(1))).toEqual(['second', 'other'])
  })

  it('of one account are at most two; further reports are refused until the first two are done', async () => {
    const reports = new Reports()
    const all = Array.from({ length: 2 }, report)
    const made = all.map(({ make }) => reports.make(1, make))
    const refusal = await reports.make(1, async () => '').catch(toApiError)
    expect(refusal).toMatchObject({ status: 503, code: 'overloaded', headers: { 'retry-after': '1' } })
    expect(await reports.make(2, async () => 'taken')).toBe('taken')
    for (const { resolve } of all) resolve('done')
    await Promise.all(made)
    expect(await reports.make(1, async () => 'taken')).toBe('taken')
  })
})
