import type { AccessStore } from '../access/access.ts'
import { SqliteAccessStore } from '../access/sqlite.ts'
import { settleRestore, wholeEntry } from '../audit/database-entries.ts'
import { type Actor, type AuditRecord, type AuditTrail, commandLine } from '../audit/record.ts'
import { SqliteAuditTrail, writeRecord } from '../audit/sqlite.ts'
import type { CharacterStore } from '../characters/library/character.ts'
import { removeAllLeftovers } from '../characters/pieces.ts'
import { removeCharacters, SqliteCharacterStore } from '../characters/sqlite.ts'
import type { Clock } from '../clock.ts'
import { isDamage } from '../errors.ts'
import type { Metric } from '../instruments.ts'
import type { Limits } from '../limit-values.ts'
import { Limiter } from '../limits/limiter.ts'
import type { LimitKeeper } from '../limits/reservation.ts'
import type { PlantStore } from '../plants/plant.ts'
import { SqlitePlantStore } from '../plants/sqlite.ts'
import { removeRest, SqliteTransfers } from '../plants/sqlite-transfer.ts'
import type { PlantTransfers } from '../plants/transfers.ts'
import { openToRead } from '../storage/copy.ts'
import { openDatabase } from '../storage/database.ts'
import { GroupCommit } from '../storage/group-commit.ts'
import { migrations } from '../storage/migrations.ts'
import { OutsideChanges } from '../storage/outside-changes.ts'
import type { WaitingRequest } from '../storage/postgres/request-time.ts'
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
  readonly transfers: PlantTransfers
  readonly characters: CharacterStore
  readonly ledger: Ledger
  readonly usage: UsageReader
  readonly audit: AuditTrail
  /**
   * Deletes an account that has no plants any more, with its keys, characters, grants and idempotency keys, in one transaction.
   * What it has used stays in the ledger. Pieces of its cards go after it, in small transactions.
   * @returns false, and deletes nothing, where it has plants
   * @throws AccessError for an unknown account, and one with the last working key of the scope `admin`
   */
  deleteAccount(name: string, by?: Actor): Promise<boolean>
  /**
   * Gives what holds keys and accounts to their limits, together with all who use this database.
   * @param settings for accounts that have none of their own
   */
  limiter(settings: Limits): LimitKeeper
  /** What the database can tell of its work; the same names for every engine, and what only one has. */
  readonly metrics: readonly Metric[]
  /** Resolves when the database answers; rejects with the reason when it does not. */
  check(): Promise<void>
  /** Does something for a request: all that it waits for the database until its reply begins shares one time. */
  duringRequest?(asker: WaitingRequest, work: () => void): void
  /** From now on no other program may hold up the whole process for long, as it may while one command runs. */
  beginServing?(clock?: Clock): void
  close(): Promise<void>
}

/**
 * Opens the stores over the SQLite file at this path. Another database engine is another function like this one.
 * @throws StorageError when the file or its folder cannot be used, or a move into it is not done
 */
export function openSqliteStores(path: string, by: Actor = commandLine): Stores {
  const records: AuditRecord[] = []
  const database = openDatabase(path, migrations, (sql, before, after) => {
    records.push(writeRecord(sql, by, wholeEntry('database.migrated', { schema: before }, { schema: after })))
  })
  for (const record of records) by.tell?.(record)
  try {
    refuseUnfinishedMove(unfinishedMoveInFile(database), path)
    settleRestore(database)
  } catch (error) {
    database.close()
    throw error
  }
  const commit = new GroupCommit(database)
  // A lost moment of the ledger is no reason to let every chat request wait for the disk.
  const ledgerCommit = new GroupCommit(database, 'NORMAL')
  const ledger = new SqliteLedger(database, ledgerCommit)
  const changes = new OutsideChanges(database)
  const wal = new WalCheckpointer(database)
  const ping = database.prepare('SELECT 1')
  const lookAtFile = fileLook(path)
  const access = new SqliteAccessStore(database, changes)
  const characters = new SqliteCharacterStore(database, changes)
  return {
    access,
    plants: new SqlitePlantStore(database, commit, changes),
    transfers: new SqliteTransfers(database, commit),
    characters,
    ledger,
    usage: new SqliteUsageReader(database),
    audit: new SqliteAuditTrail(database, commit),
    async deleteAccount(name, by) {
      const removeBelongings = (account: number) => {
        if (!removeRest(database, account)) return false
        removeCharacters(database, account)
        return true
      }
      const isDeleted = await access.deleteAccount(name, removeBelongings, by)
      if (isDeleted) await removeAllLeftovers(characters)
      return isDeleted
    },
    limiter: (settings) => new Limiter({ settings, spent: (...question) => ledger.spent(...question) }),
    metrics: [...commit.metrics, ledgerQueue(ledger), wal.metric],
    async check() {
      ping.get()
      lookAtFile()
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
      // On a full disk there is no more to be done for it.
      await isWritten.catch(() => undefined)
      ledger.stop()
      database.close()
    },
  }
}

/** Milliseconds between two looks at the database's file. */
const betweenLooks = 1000

/**
 * Makes a check of the database's file, which is opened anew for it: a connection that has read the file's head once keeps it
 * until somebody writes, and does not see that it is damaged.
 */
function fileLook(path: string): () => void {
  let looked = Number.NEGATIVE_INFINITY
  return () => {
    if (performance.now() - looked < betweenLooks) return
    looked = performance.now()
    try {
      openToRead(path).close()
    } catch (error) {
      // Whether it can be opened at all is seen by the connection that serves.
      if (isDamage(error)) throw error
    }
  }
}

/** How many entries of the ledger are not written yet, for `/metrics`. */
export function ledgerQueue({ queued }: { readonly queued: () => number }): Metric {
  return {
    name: 'conservatory_ledger_queue',
    help: 'Entries of the ledger that wait to be written.',
    type: 'gauge',
    samples: () => [{ value: queued() }],
  }
}
