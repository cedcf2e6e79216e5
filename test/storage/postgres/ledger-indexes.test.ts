import { expect, it, onTestFinished } from 'vitest'
import { openPostgresStores } from '../../../src/stores/postgres.ts'
import { unixSeconds } from '../../../src/time.ts'
import { fillLargeLedger, settle } from '../../support/large-ledger.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'
import { openSqlOf } from '../../support/test-sql.ts'

const rows = 5000

it('(l) a start, settling requests of dead replicas, and removing old requests read no whole ledger', async () => {
  const url = await newMigratedDatabase()
  const sql = openSqlOf('', url)
  onTestFinished(() => sql.close())
  await (await openPostgresStores(url)).close()
  await fillLargeLedger(sql, 'PostgreSQL', rows, unixSeconds())
  await settle(sql, 'PostgreSQL')
  // PostgreSQL updates its statistics when a connection ends.
  const readTill = async () => {
    const [row] = await sql.run<{ whole: number; fetched: number }>(
      "SELECT seq_tup_read AS whole, idx_tup_fetch AS fetched FROM pg_stat_user_tables WHERE relname = 'requests'",
    )
    return row ?? { whole: 0, fetched: 0 }
  }
  await sql.run('SELECT pg_stat_force_next_flush()')
  const before = await readTill()
  const { ledger, usage, close } = await openPostgresStores(url)
  for (let round = 0; round < 20; round++) expect(await ledger.interruptRunning()).toBe(0)
  expect(await ledger.addToDaySums(500)).toBe(0)
  expect(await ledger.prune(unixSeconds() - 365 * 86_400, 500)).toBe(0)
  const month = { account: 1, from: unixSeconds() - 30 * 86_400, until: unixSeconds() + 1 }
  expect(await usage.list(month, 20)).toHaveLength(20)
  await close()
  const after = await readTill()
  expect(after.whole - before.whole).toBe(0)
  expect(after.fetched - before.fetched).toBeLessThan(100)
})
