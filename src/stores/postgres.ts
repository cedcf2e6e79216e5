import { PostgresAccessStore } from '../access/postgres.ts'
import { PostgresAuditTrail, writeRecord } from '../audit/postgres.ts'
import { type Actor, type AuditRecord, commandLine, globalEntry } from '../audit/record.ts'
import { removeAllLeftEvents } from '../care/events.ts'
import { removeAllLeftovers } from '../characters/pieces.ts'
import { PostgresCharacterStore } from '../characters/postgres.ts'
import { PostgresCounts } from '../limits/postgres.ts'
import { SharedLimiter } from '../limits/shared-limiter.ts'
import { Photos } from '../plants/photos.ts'
import { PostgresPlantStore } from '../plants/postgres.ts'
import { PostgresTransfers } from '../plants/postgres-transfer.ts'
import { connectPostgres } from '../storage/postgres/connect.ts'
import type { Transaction } from '../storage/postgres/database.ts'
import { checkPostgres, unfinishedMoveIn } from '../storage/postgres/migrate.ts'
import { duringRequest } from '../storage/postgres/request-time.ts'
import { PostgresScripts } from '../storage/postgres/scripts.ts'
import { refuseUnfinishedMove } from '../storage/unfinished-move.ts'
import { PostgresLedger } from '../usage/postgres.ts'
import { PostgresUsageReader } from '../usage/postgres-report.ts'
import { ledgerQueue, removeAccountData, type Stores } from './stores.ts'

/**
 * Opens the stores over PostgreSQL, or over an engine with PostgreSQL's protocol, and brings the schema up to date.
 * @param mayCreate whether tables are created in a database without tables
 * @throws StorageError when the database cannot be used, or has an unfinished move. The message is one line with the host and
 *   without the password
 */
export async function openPostgresStores(url: string, by: Actor = commandLine, mayCreate = true): Promise<Stores> {
  let migrated: AuditRecord | undefined
  const onMigrated = async (sql: Transaction, before: string, after: string) => {
    migrated = await writeRecord(sql, by, globalEntry('database.migrated', { schema: before }, { schema: after }))
  }
  const database = await connectPostgres(url, 'DATABASE_URL', onMigrated, mayCreate)
  if (migrated) by.onRecord?.(migrated)
  try {
    refuseUnfinishedMove(await unfinishedMoveIn(database), `at ${database.place}`)
  } catch (error) {
    await database.close(0)
    throw error
  }
  const access = new PostgresAccessStore(database)
  const ledger = new PostgresLedger(database)
  const scripts = new PostgresScripts(database)
  const plants = new PostgresPlantStore(database, scripts)
  const photos = new Photos(plants, scripts)
  const characters = new PostgresCharacterStore(database)
  const counts = new PostgresCounts(database)
  return {
    access,
    plants,
    photos,
    transfers: new PostgresTransfers(database),
    characters,
    ledger,
    usage: new PostgresUsageReader(database),
    audit: new PostgresAuditTrail(database),
    scripts,
    async deleteAccount(name, by) {
      const isDeleted = await access.deleteAccount(name, removeAccountData, by)
      if (isDeleted) await removeAllLeftovers(characters)
      if (isDeleted) await removeAllLeftEvents(scripts)
      if (isDeleted) await photos.removeAllLeft()
      return isDeleted
    },
    limiter: (settings) => new SharedLimiter({ settings, counts, caughtUp: () => ledger.caughtUp() }),
    metrics: [...plants.metrics, ...database.metrics, ledgerQueue(ledger)],
    check: () => checkPostgres(database),
    duringRequest: duringRequest,
    async close() {
      // The queued ends of requests are written first, because the reserved tokens of these requests count until then.
      await ledger.flush().catch(() => undefined)
      await counts.close()
      await ledger.stop().catch(() => undefined)
      await database.close()
    },
  }
}
