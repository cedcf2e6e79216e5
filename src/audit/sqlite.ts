import { basename } from 'node:path'
import type { Database, Statement } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import { takeBriefly } from '../storage/prune.ts'
import { runScript, type Script } from '../storage/scripts.ts'
import { accountGone, isForeignKeyViolation, withWriteErrors } from '../storage/write-error.ts'
import { inTransaction } from '../storage/write-lock.ts'
import { dayOf } from '../time.ts'
import {
  type Actor,
  type AuditEntry,
  type AuditQuestion,
  type AuditRecord,
  type AuditRow,
  type AuditTrail,
  auditColumns,
  checkChanges,
  commandLine,
  globalEntry,
  type Recorder,
  recordOf,
  toRecord,
  toRow,
  unknownAfter,
} from './record.ts'

/**
 * Runs a change and writes its audit records in one transaction, then calls the `onRecord` of each record's actor.
 * @throws ApiError 507 when the disk is full, 503 when another program has the lock, 403 when the account was deleted; and every
 *   error of the change
 */
export function runAudited<T>(database: Database, change: (record: Recorder) => Script<T>): T {
  const notifications: (() => void)[] = []
  function* record(by: Actor, entry: AuditEntry): Script<void> {
    yield () => {
      const done = writeRecord(database, by, entry)
      notifications.push(() => by.onRecord?.(done))
    }
  }
  try {
    const result = withWriteErrors(() => inTransaction(database, () => runScript(database, change(record))))
    for (const notify of notifications) notify()
    return result
  } catch (error) {
    throw isForeignKeyViolation(error) ? accountGone(error) : error
  }
}

/**
 * Counts a change, and writes its record. The caller must have the transaction of the change open.
 * @throws ApiError 429 when the actor may make no change more on this day
 */
export function writeRecord(database: Database, by: Actor, entry: AuditEntry): AuditRecord {
  const record = recordOf(by, entry)
  for (const { subject, limit } of by.changeLimits ?? []) {
    const count = database
      .prepare<[string, string], number>(`
        INSERT INTO spend (subject, day, tokens) VALUES (?, ?, 1)
        ON CONFLICT (subject, day) DO UPDATE SET tokens = tokens + 1 RETURNING tokens`)
      .pluck()
      .get(subject, dayOf(record.at * 1000))
    checkChanges(limit, count ?? 1)
  }
  const { id = null, name = null } = entry.account ?? {}
  database
    .prepare(`
      INSERT INTO audit_records (${auditColumns}, account, account_name)
      VALUES ($id, $at, $actor, $actor_key, $actor_account, $address, $action, $target, $before, $after, $account,
        coalesce($name, (SELECT name FROM accounts WHERE accounts.id = $account)))`)
    .run({ ...toRow(record), account: id, name })
  return record
}

/** How many records one query scans. Without this bound, a rare filter would scan all records in one call. */
const seqPerQuery = 1000

/** The numbers of the first and the last record. */
interface Ends {
  readonly first: number
  readonly last: number
}

const nothing: Ends = { first: 0, last: 0 }

/** The audit trail in SQLite. */
export class SqliteAuditTrail implements AuditTrail {
  readonly #database: Database
  readonly #commit: GroupCommit
  readonly #ends: Statement<[], Ends>

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
    this.#ends = database.prepare(`
      SELECT coalesce((SELECT min(seq) FROM audit_records), 0) AS first,
        coalesce((SELECT max(seq) FROM audit_records), 0) AS last`)
  }

  async list({ since, accountId, accountName, action, after, limit }: AuditQuestion): Promise<readonly AuditRecord[]> {
    // The query has only the conditions in use, so that SQLite finds an account's records by an index.
    const filter = [
      accountName === undefined ? '' : 'AND account_name = $accountName',
      accountId === undefined ? '' : 'AND account = $accountId',
      action === undefined ? '' : 'AND action = $action',
      since === undefined ? '' : 'AND at >= $since',
    ].join(' ')
    const values = { since, accountId, accountName, action, after, limit }
    const before =
      after === undefined
        ? 0
        : this.#database
            .prepare<[object], number>(`SELECT seq FROM audit_records WHERE id = $after ${filter}`)
            .pluck()
            .get(values)
    if (before === undefined) throw unknownAfter()
    const statement = this.#database.prepare<[object], AuditRow>(`
      SELECT ${auditColumns} FROM audit_records
      WHERE seq > $from AND seq <= $to ${filter} ORDER BY seq LIMIT $left`)
    const found: AuditRecord[] = []
    const { first, last } = this.#ends.get() ?? nothing
    for (let from = Math.max(before, first - 1); from < last && found.length < limit; from += seqPerQuery) {
      const rows = statement.all({ ...values, from, to: from + seqPerQuery, left: limit - found.length })
      found.push(...rows.map(toRecord))
    }
    return found
  }

  async change<T>(change: (record: Recorder) => Script<T>): Promise<T> {
    return runAudited(this.#database, change)
  }

  async record(by: Actor, entry: AuditEntry): Promise<void> {
    const written = await this.#commit.run(() => writeRecord(this.#database, by, entry))
    by.onRecord?.(written)
  }

  prune(before: number, max: number): Promise<number> {
    const remove = this.#database.prepare<[number, number]>(
      'DELETE FROM audit_records WHERE seq IN (SELECT seq FROM audit_records WHERE at < ? ORDER BY at LIMIT ?)',
    )
    return this.#commit.run(() => takeBriefly(max, (count) => remove.run(before, count).changes))
  }
}

/** The `user_version` of a restored database that has no table for audit records yet. */
const restoredWithoutRecord = 1

/**
 * Writes the audit record of a restore into the restored database. If the backup is older than the audit trail, the database has
 * no table for the record. Then the restored database is marked, and `recordRestore` writes the record when the database is next
 * opened.
 * @param file the path of the backup
 */
export function noteRestore(database: Database, file: string): void {
  const hasTrail = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'audit_records'").get() !== undefined
  if (hasTrail) writeRecord(database, commandLine, globalEntry('database.restored', null, { backup: basename(file) }))
  else database.pragma(`user_version = ${restoredWithoutRecord}`)
}

/** Writes the audit record of a restore into a database that `noteRestore` has marked. */
export function recordRestore(database: Database): void {
  if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
  inTransaction(database, () => {
    if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
    writeRecord(database, commandLine, globalEntry('database.restored', null, null))
    database.pragma('user_version = 0')
  })
}
