import type { Database } from 'better-sqlite3'
import type { GroupCommit } from '../storage/group-commit.ts'
import { removeBriefly } from '../storage/prune.ts'
import { writing } from '../storage/write-error.ts'
import type { Actor, AuditEntry, AuditQuestion, AuditRecord, AuditTrail } from './record.ts'
import { type AuditRow, auditColumns, recordOf, toRecord, toRow, unknownAfter } from './rows.ts'

/** Puts on record what the transaction does that is under way. */
export type Recorder = (by: Actor, entry: AuditEntry) => void

/**
 * Does a change in one transaction with its records, which their actors hear of afterwards.
 * @throws ApiError 507 when the disk is full, 503 when another program writes, and whatever the change throws
 */
export function recording<T>(database: Database, change: (record: Recorder) => T): T {
  const written: (() => void)[] = []
  const record: Recorder = (by, entry) => {
    const done = writeRecord(database, by, entry)
    written.push(() => by.tell?.(done))
  }
  const result = writing(() => database.transaction(() => change(record)).immediate())
  for (const tell of written) tell()
  return result
}

/** Writes a record. To be called in the transaction of its change. */
export function writeRecord(database: Database, by: Actor, entry: AuditEntry): AuditRecord {
  const record = recordOf(by, entry)
  const { id = null, name = null } = entry.account ?? {}
  database
    .prepare(`
      INSERT INTO audit_records (${auditColumns}, account, account_name)
      VALUES ($id, $at, $actor, $actor_key, $actor_account, $address, $action, $target, $before, $after, $account,
        coalesce($name, (SELECT name FROM accounts WHERE accounts.id = $account)))`)
    .run({ ...toRow(record), account: id, name })
  return record
}

/** The audit trail in SQLite. */
export class SqliteAuditTrail implements AuditTrail {
  readonly #database: Database
  readonly #commit: GroupCommit

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
  }

  async list({ since, accountId, accountName, action, after, limit }: AuditQuestion): Promise<readonly AuditRecord[]> {
    // Only what is asked for, so that an account's records are found by their index.
    const asked = [
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
            .prepare<[object], number>(`SELECT seq FROM audit_records WHERE id = $after ${asked}`)
            .pluck()
            .get(values)
    if (before === undefined) throw unknownAfter()
    return this.#database
      .prepare<[object], AuditRow>(
        `SELECT ${auditColumns} FROM audit_records WHERE seq > $before ${asked} ORDER BY seq LIMIT $limit`,
      )
      .all({ ...values, before })
      .map(toRecord)
  }

  async record(by: Actor, entry: AuditEntry): Promise<void> {
    const written = await this.#commit.run(() => writeRecord(this.#database, by, entry))
    by.tell?.(written)
  }

  prune(before: number, most: number): Promise<number> {
    const remove = this.#database.prepare<[number, number]>(
      'DELETE FROM audit_records WHERE seq IN (SELECT seq FROM audit_records WHERE at < ? ORDER BY at LIMIT ?)',
    )
    return this.#commit.run(() => removeBriefly(most, (count) => remove.run(before, count).changes))
  }
}
