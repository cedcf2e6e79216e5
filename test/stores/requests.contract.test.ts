import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import type { LedgerEntry } from '../../src/usage/ledger.ts'
import type { RequestFilter } from '../../src/usage/report.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

const folder = temporaryFolder()
const opened: Record<string, Stores> = {}
beforeAll(async () => {
  opened['PostgreSQL'] = await openPostgresStores(await newMigratedDatabase('read committed'))
  opened['SQLite'] = openSqliteStores(join(folder.path, 'conservatory.db'))
})
afterAll(async () => {
  for (const stores of Object.values(opened)) await stores.close()
  folder.remove()
})

/** More requests than one query reads to find matches of a filter. */
const many = 4500

describe.each(['SQLite', 'PostgreSQL'])('the list of requests in %s', (engine) => {
  const stores = (): Stores => {
    const found = opened[engine]
    if (!found) throw new Error('the engine is not open')
    return found
  }
  const list = async (question: Partial<RequestFilter>, limit = 10) => {
    const found = await stores().usage.list({ account: 1, from: 0, until: 10_000, ...question }, limit)
    return found.map(({ id }) => id)
  }
  const entryOf = (id: string, created: number, microsecond: number, rest: Partial<LedgerEntry> = {}) => ({
    ...{ id, account: 1, keyId: 'k', keyPrefix: 'cv_k', model: 'best', modelUsed: null, character: null, created },
    ...{ microsecond, reservedTokens: 0, promptTokens: 0, completionTokens: 0, tokensExact: true, firstTokenMs: null },
    ...{ totalMs: 1, retries: 0, state: 'stop', ...rest },
  })

  beforeAll(async () => {
    const { ledger } = stores()
    // The requests are not in the order of their ids.
    ledger.record(entryOf('e', 5000, 7))
    ledger.record(entryOf('a', 5000, 900_000, { model: 'other' }))
    ledger.record(entryOf('c', 5000, 7))
    ledger.record(entryOf('z', 4999, 999_999, { state: 'timeout' }))
    ledger.record(entryOf('b', 5001, 0))
    ledger.record(entryOf('foreign', 5000, 8, { account: 2 }))
    await ledger.begin(entryOf('running', 5002, 0, { state: 'running' }))
    for (let index = 0; index < many; index++) {
      const model = index === 0 ? 'rare' : 'best'
      ledger.record(entryOf(`m${index}`, 1000, index, { account: 3, model }))
    }
    await ledger.flush()
  })

  it('has the newest first, even within a second, and no requests of another account', async () => {
    expect(await list({})).toStrictEqual(['running', 'b', 'a', 'e', 'c', 'z'])
    expect(await list({ account: 2 })).toStrictEqual(['foreign'])
    expect(await list({ account: 9 })).toStrictEqual([])
  })

  it('has the truncation of a prompt by the upstream, if the request was recorded in one step or in two steps', async () => {
    const { ledger, usage } = stores()
    const cut = { account: 4, upstreamTruncated: '2050/8008' }
    ledger.record(entryOf('at-once', 3000, 0, cut))
    await ledger.begin(entryOf('at-its-end', 3001, 0, { account: 4, state: 'running' }))
    await ledger.finish(entryOf('at-its-end', 3001, 0, cut))
    await ledger.flush()
    for (const id of ['at-once', 'at-its-end']) {
      expect((await usage.find(4, id))?.upstreamTruncated, id).toBe('2050/8008')
    }
    expect((await usage.find(1, 'b'))?.upstreamTruncated).toBeNull()
  })

  it('continues after any request with the next older requests', async () => {
    const { usage } = stores()
    const all = await list({})
    for (const [index, id] of all.entries()) {
      const after = await usage.find(1, id)
      expect(await list(after ? { after } : {}, 2)).toStrictEqual(all.slice(index + 1, index + 3))
    }
  })

  it('filters by time, model and state', async () => {
    expect(await list({ from: 5000, until: 5001 })).toStrictEqual(['a', 'e', 'c'])
    expect(await list({ until: 5000 })).toStrictEqual(['z'])
    expect(await list({ model: 'other' })).toStrictEqual(['a'])
    expect(await list({ state: 'running' })).toStrictEqual(['running'])
    expect(await list({ state: 'timeout', model: 'other' })).toStrictEqual([])
    expect(await list({ model: 'o\0ther' })).toStrictEqual([])
    const newest = await stores().usage.find(1, 'running')
    expect(await list({ until: 5001, ...(newest ? { after: newest } : {}) })).toStrictEqual(['a', 'e', 'c', 'z'])
  })

  it('finds a rare match behind thousands of other requests', async () => {
    expect(await list({ account: 3, model: 'rare' })).toStrictEqual(['m0'])
    expect(await list({ account: 3, model: 'best' }, many)).toHaveLength(many - 1)
    expect(await list({ account: 3, model: 'best' }, 2)).toStrictEqual([`m${many - 1}`, `m${many - 2}`])
  })
})
