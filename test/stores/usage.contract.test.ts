import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import type { LedgerEntry } from '../../src/usage/ledger.ts'
import type { Grouping, UsageFilter, UsageLine } from '../../src/usage/report.ts'
import { type LedgerRow, putIntoLedger } from '../support/ledger.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'
import { openSqlOf, type TestSql } from '../support/test-sql.ts'

const day = 86_400
const folder = temporaryFolder()
const opened: Record<string, { readonly stores: Stores; readonly sql: TestSql }> = {}
beforeAll(async () => {
  const url = await newMigratedDatabase('read committed')
  opened['PostgreSQL'] = { stores: await openPostgresStores(url), sql: openSqlOf(folder.path, url) }
  const stores = openSqliteStores(join(folder.path, 'conservatory.db'))
  opened['SQLite'] = { stores, sql: openSqlOf(folder.path, undefined) }
  for (const engine of Object.values(opened)) await engine.stores.access.createAccount('ann')
})
afterAll(async () => {
  for (const { stores, sql } of Object.values(opened)) {
    await sql.close()
    await stores.close()
  }
  folder.remove()
})

const at = (seconds: number) => new Date(seconds * 1000).toISOString()

/** The group of the report to which a row belongs. */
function nameOf(row: Required<LedgerRow>, by: Grouping): string | null {
  if (by === 'day') return row.created.slice(0, 10)
  return by === 'account' ? (row.account === 1 ? 'ann' : null) : row[by]
}

/** The expected sums, from all rows of the period. */
function summedUp(rows: readonly Required<LedgerRow>[], { by, account, from, until }: UsageFilter) {
  const lines = new Map<string | null, UsageLine>()
  for (const row of rows) {
    const created = Date.parse(row.created) / 1000
    if (row.state === 'running' || created < from || created >= until || row.account !== (account ?? row.account))
      continue
    const group = nameOf(row, by)
    const before = lines.get(group) ?? { group, requests: 0, promptTokens: 0, completionTokens: 0, failed: 0 }
    lines.set(group, {
      group,
      requests: before.requests + 1,
      promptTokens: before.promptTokens + row.promptTokens,
      completionTokens: before.completionTokens + row.completionTokens,
      failed: before.failed + (['stop', 'client_gone'].includes(row.state) ? 0 : 1),
    })
  }
  const tokens = (line: UsageLine) => (by === 'day' ? 0 : line.promptTokens + line.completionTokens)
  const name = (line: UsageLine) => line.group ?? ''
  return [...lines.values()].sort((a, b) => tokens(b) - tokens(a) || (name(a) > name(b) ? 1 : -1))
}

let ids = 0
const rowOfLedger: fc.Arbitrary<Required<LedgerRow>> = fc.record({
  id: fc.constant('').map(() => `req_${ids++}`),
  account: fc.integer({ min: 1, max: 2 }),
  key: fc.constantFrom('cv_a', 'cv_b'),
  model: fc.constantFrom('best', 'b\u00e4ster', '\u{1f33f}'),
  character: fc.constantFrom(null, 'Fern', 'Moss'),
  created: fc.integer({ min: 0, max: 4 * day }).map(at),
  promptTokens: fc.integer({ min: 0, max: 20 }),
  completionTokens: fc.integer({ min: 0, max: 20 }),
  state: fc.constantFrom('stop', 'client_gone', 'timeout', 'running'),
})
const question: fc.Arbitrary<UsageFilter> = fc
  .record({
    by: fc.constantFrom<Grouping[]>('day', 'model', 'key', 'character', 'account'),
    account: fc.constantFrom(1, 2, undefined),
    from: fc.oneof(
      fc.integer({ min: 0, max: 4 }).map((days) => days * day),
      fc.integer({ min: 0, max: 4 * day }),
    ),
    length: fc.oneof(
      fc.integer({ min: 1, max: 4 }).map((days) => days * day),
      fc.integer({ min: 1, max: 4 * day }),
    ),
  })
  .map(({ by, account, from, length }) => ({
    ...{ by, from, until: from + length },
    ...(account === undefined ? {} : { account }),
  }))

describe.each(['SQLite', 'PostgreSQL'])('the usage in %s', (engine) => {
  const openEngine = () => {
    const found = opened[engine]
    if (!found) throw new Error('the engine is not open')
    return found
  }
  const count = async (table: string) => {
    const [row] = await openEngine().sql.run<{ count: number }>(`SELECT count(*) AS count FROM ${table}`)
    return Number(row?.count)
  }
  const sumAllUp = async () => {
    const { ledger } = openEngine().stores
    while ((await ledger.addToDaySums(500)) > 0);
  }
  beforeEach(async () => {
    for (const table of ['requests', 'usage_days']) await openEngine().sql.run(`DELETE FROM ${table}`)
  })

  it('is the sum of all requests, whether or not they are already in the sums of their days', async () => {
    const { stores, sql } = openEngine()
    const some = fc.array(rowOfLedger, { minLength: 1, maxLength: 25 })
    await fc.assert(
      fc.asyncProperty(
        some,
        fc.nat(25),
        some,
        fc.array(question, { maxLength: 8 }),
        async (before, summed, later, questions) => {
          await sql.run('DELETE FROM requests')
          await sql.run('DELETE FROM usage_days')
          await putIntoLedger(sql, before)
          if (summed > 0) await stores.ledger.addToDaySums(summed)
          await putIntoLedger(sql, later)
          for (const each of questions) {
            const expected = summedUp([...before, ...later], each)
            expect(await stores.usage.sum(each)).toStrictEqual(expected)
            expect(await stores.usage.sum(each, 2)).toStrictEqual(expected.slice(0, 2))
          }
        },
      ),
      { numRuns: 40 },
    )
  })

  it('has each request that the ledger wrote, once; SQLite adds a request to the sums of its day when it writes its end', async () => {
    const { ledger, usage } = openEngine().stores
    const entryOf = ({ created, key, ...row }: Required<LedgerRow>): LedgerEntry => {
      const unknown = { keyId: key, modelUsed: null, reservedTokens: 0, firstTokenMs: null, totalMs: 1, retries: 0 }
      return { ...row, ...unknown, created: Date.parse(created) / 1000, keyPrefix: key, tokensExact: true }
    }
    const ways = fc.constantFrom('begun', 'finished', 'recorded')
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(rowOfLedger, ways), { maxLength: 25 }), async (rows) => {
        await openEngine().sql.run('DELETE FROM requests')
        await openEngine().sql.run('DELETE FROM usage_days')
        const ended = rows.filter(([{ state }, way]) => state !== 'running' && way !== 'begun').map(([row]) => row)
        await Promise.all(
          rows.map(async ([row, way]) => {
            const entry = entryOf(row)
            if (way === 'recorded' && ended.includes(row)) return ledger.record(entry)
            await ledger.begin({ ...entry, promptTokens: 0, completionTokens: 0, state: 'running' })
            if (ended.includes(row)) await ledger.finish(entry)
          }),
        )
        await ledger.flush()
        const everything = { by: 'key', from: 0, until: 5 * day } as const
        expect(await usage.sum(everything)).toStrictEqual(summedUp(ended, everything))
        expect(await ledger.addToDaySums(500)).toBe(engine === 'SQLite' ? 0 : ended.length)
        expect(await usage.sum(everything)).toStrictEqual(summedUp(ended, everything))
      }),
      { numRuns: 40 },
    )
  })

  it('has a recorded request after a flush, also if another flush has just begun', async () => {
    const { ledger, usage } = openEngine().stores
    const numbers = {
      reservedTokens: 0,
      promptTokens: 1,
      completionTokens: 1,
      firstTokenMs: null,
      totalMs: 1,
      retries: 0,
    }
    const names = { keyId: 'key', keyPrefix: 'cv_a', model: 'best', modelUsed: null, character: null, state: 'stop' }
    ledger.record({ id: 'req_flushed', account: 1, created: 1, tokensExact: true, ...numbers, ...names })
    const begun = ledger.flush()
    await ledger.flush()
    expect(await usage.find(1, 'req_flushed')).toMatchObject({ id: 'req_flushed', state: 'stop' })
    await begun
  })

  it('counts a request once that is still running while other requests are added to the sums of days', async () => {
    const { stores, sql } = openEngine()
    const created = '2026-11-19T08:00:00Z'
    await putIntoLedger(sql, [
      { id: 'req_ended', created },
      { id: 'req_running', created, state: 'running' },
    ])
    const usage = async () => (await stores.usage.sum({ by: 'day', account: 1, from: 0, until: 1e10 }))[0]?.requests
    expect(await stores.ledger.addToDaySums(500)).toBe(1)
    expect(await usage()).toBe(1)
    await sql.run("UPDATE requests SET state = 'stop' WHERE id = 'req_running'")
    expect(await usage()).toBe(2)
    await sumAllUp()
    expect([await usage(), await count('usage_days')]).toEqual([2, 1])
  })

  it('of 1,500 models has each model, the most used first', async () => {
    const { stores, sql } = openEngine()
    const created = '2026-11-19T08:00:00Z'
    const rows = Array.from({ length: 3000 }, (_, index) => {
      return { created, model: `model ${index % 1500}`, promptTokens: index % 1500 }
    })
    await putIntoLedger(sql, rows)
    const asked = { by: 'model', account: 1, from: 0, until: 1e10 } as const
    const lines = await stores.usage.sum(asked)
    expect(lines).toHaveLength(1500)
    expect(lines[0]).toEqual({ group: 'model 1499', requests: 2, promptTokens: 2998, completionTokens: 0, failed: 0 })
    await sumAllUp()
    expect(await stores.usage.sum(asked)).toEqual(lines)
    expect(await stores.usage.sum(asked, 1001)).toEqual(lines.slice(0, 1001))
  })

  it('is removed with the ledger: the sums of a day go when all requests of that day are too old', async () => {
    const { stores, sql } = openEngine()
    const noon = (days: number) => ({ created: at(days * day + day / 2) })
    await putIntoLedger(sql, [noon(1), noon(2), noon(3)])
    await sumAllUp()
    const prune = async () => {
      let removed = 0
      for (let some = -1; some !== 0; removed += some) some = await stores.ledger.prune(2 * day + day - 1, 1)
      return removed
    }
    expect(await prune()).toBe(3)
    const lines = await stores.usage.sum({ by: 'day', account: 1, from: 0, until: 10 * day })
    expect(lines.map(({ group }) => group)).toEqual(['1970-01-03', '1970-01-04'])
  })
})
