import type { Database } from 'better-sqlite3'
import type { AccessStore } from '../access/access.ts'
import { SqliteAccessStore } from '../access/sqlite.ts'
import { type Actor, type AuditRecord, type AuditTrail, commandLine, globalEntry } from '../audit/record.ts'
import { recordRestore, SqliteAuditTrail, writeRecord } from '../audit/sqlite.ts'
import { removeAllLeftEvents } from '../care/events.ts'
import type { CharacterStore } from '../characters/library/character.ts'
import { removeAllLeftovers } from '../characters/pieces.ts'
import { SqliteCharacterStore } from '../characters/sqlite.ts'
import { removeCharacters } from '../characters/store.ts'
import type { Clock } from '../clock.ts'
import { isDamage } from '../errors.ts'
import type { Metric } from '../instruments.ts'
import type { Limits } from '../limit-values.ts'
import type { Limiter } from '../limits/limiter.ts'
import { LocalLimiter } from '../limits/local-limiter.ts'
import { Photos } from '../plants/photos.ts'
import type { PlantStore } from '../plants/plant.ts'
import { SqlitePlantStore } from '../plants/sqlite.ts'
import { SqliteTransfers } from '../plants/sqlite-transfer.ts'
import { type PlantTransfers, removeRest } from '../plants/transfers.ts'
import { OutsideChanges } from '../storage/caches.ts'
import { openToRead } from '../storage/copy.ts'
import { openDatabase } from '../storage/database.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { migrations } from '../storage/migrations.ts'
import type { WaitingRequest } from '../storage/postgres/request-time.ts'
import type { Script, Scripts } from '../storage/scripts.ts'
import { SqliteScripts } from '../storage/sqlite-scripts.ts'
import { refuseUnfinishedMove, unfinishedMoveInFile } from '../storage/unfinished-move.ts'
import { WalCheckpointer } from '../storage/wal.ts'
import { waitAsService } from '../storage/write-lock.ts'
import type { Ledger } from '../usage/ledger.ts'
import type { UsageReader } from '../usage/report.ts'
import { SqliteLedger } from '../usage/sqlite.ts'
import { SqliteUsageReader } from '../usage/sqlite-report.ts'

/** Every store of the service, over one database. */
export interface Stores {
  readonly access: AccessStore
  readonly plants: PlantStore
  readonly photos: Photos
  readonly transfers: PlantTransfers
  readonly characters: CharacterStore
  readonly ledger: Ledger
  readonly usage: UsageReader
  readonly audit: AuditTrail
  /** Transactions of features whose statements are for both engines. They share the group commit of plants with SQLite. */
  readonly scripts: Scripts
  /**
   * Deletes an account that has no plants, and its keys, characters, grants and idempotency keys, in one transaction. Its usage
   * stays in the ledger. The pieces of its cards are removed afterwards, in small transactions.
   * @returns false, with nothing deleted, when the account has plants
   * @throws AccessError when the account is unknown, or has the last valid key of the scope `admin`
   */
  deleteAccount(name: string, by?: Actor): Promise<boolean>
  /**
   * Makes the limiter of keys and accounts. Over PostgreSQL, all replicas count together.
   * @param settings the limits of accounts without limits of their own
   */
  limiter(settings: Limits): Limiter
  /** Metrics of the database. A metric has the same name for both engines, but some metrics exist for one engine only. */
  readonly metrics: readonly Metric[]
  /** Resolves when the database answers. Otherwise rejects with the reason. */
  check(): Promise<void>
  /** Runs the work of a request: its waits for the database share one time limit until the reply begins. */
  duringRequest?(request: WaitingRequest, work: () => void): void
  /**
   * Prepares for serving. From then on, another program's lock blocks the process only for a moment, and the write-ahead log is
   * kept small.
   */
  beginServing?(clock?: Clock): void
  close(): Promise<void>
}

/**
 * Opens the stores over the SQLite file at this path.
 * @param mayCreate whether a database that does not exist is created
 * @throws StorageError when the file or its folder cannot be used, or has an unfinished move
 */
export function openSqliteStores(path: string, by: Actor = commandLine, mayCreate = true): Stores {
  const records: AuditRecord[] = []
  const onMigrated = (sql: Database, before: string, after: string) => {
    records.push(writeRecord(sql, by, globalEntry('database.migrated', { schema: before }, { schema: after })))
  }
  const database = openDatabase(path, migrations, onMigrated, mayCreate)
  for (const record of records) by.onRecord?.(record)
  try {
    refuseUnfinishedMove(unfinishedMoveInFile(database), path)
    recordRestore(database)
  } catch (error) {
    database.close()
    throw error
  }
  const commit = new GroupCommit(database)
  // A power cut may lose the last entries of the ledger. With FULL, every chat request would wait for the disk.
  const ledgerCommit = new GroupCommit(database, 'NORMAL')
  const ledger = new SqliteLedger(database, ledgerCommit)
  const changes = new OutsideChanges(database)
  const wal = new WalCheckpointer(database)
  const ping = database.prepare('SELECT 1')
  const checkFile = fileCheck(path)
  const access = new SqliteAccessStore(database, changes)
  const characters = new SqliteCharacterStore(database, changes)
  const plants = new SqlitePlantStore(database, commit, changes)
  const scripts = new SqliteScripts(database, commit)
  const photos = new Photos(plants, scripts)
  return {
    access,
    plants,
    photos,
    transfers: new SqliteTransfers(database),
    characters,
    ledger,
    usage: new SqliteUsageReader(database),
    audit: new SqliteAuditTrail(database, commit),
    scripts,
    async deleteAccount(name, by) {
      const isDeleted = await access.deleteAccount(name, removeAccountData, by)
      if (isDeleted) await removeAllLeftovers(characters)
      if (isDeleted) await removeAllLeftEvents(scripts)
      if (isDeleted) await photos.removeAllLeft()
      return isDeleted
    },
    limiter: (settings) => new LocalLimiter({ settings, spent: (...question) => ledger.spent(...question) }),
    metrics: [...commit.metrics, ledgerQueue(ledger), wal.metric],
    async check() {
      ping.get()
      checkFile()
    },
    beginServing(clock) {
      waitAsService(database)
      wal.begin(clock)
    },
    async close() {
      wal.stop()
      commit.flush()
      const isWritten = ledger.flush()
      ledgerCommit.flush()
      // On a full disk, the last entries of the ledger are lost.
      await isWritten.catch(() => undefined)
      ledger.stop()
      database.close()
    },
  }
}

/** Removes the data of an account, except its usage. @returns false, with nothing removed, when the account has plants */
export function* removeAccountData(account: number): Script<boolean> {
  if (!(yield* removeRest(account))) return false
  yield* removeCharacters(account)
  return true
}

const fileCheckIntervalMs = 1000

/**
 * Makes a function that checks the database's file at most once a second. The check opens a new connection, because an open
 * connection caches the file's header until the next write, and does not see that the header is damaged.
 */
function fileCheck(path: string): () => void {
  let checkedAt = Number.NEGATIVE_INFINITY
  return () => {
    if (performance.now() - checkedAt < fileCheckIntervalMs) return
    checkedAt = performance.now()
    try {
      openToRead(path).close()
    } catch (error) {
      // Other errors also occur on the connection that serves requests.
      if (isDamage(error)) throw error
    }
  }
}

/** The metric of the ledger's entries that are not written yet. */
export function ledgerQueue({ queued }: { readonly queued: () => number }): Metric {
  return {
    name: 'conservatory_ledger_queue',
    help: 'Entries of the ledger that wait to be written.',
    type: 'gauge',
    samples: () => [{ value: queued() }],
  }
}
