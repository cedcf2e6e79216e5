import type { PostgresDatabase, Queries, Transaction } from '../storage/postgres/database.ts'
import { isForeignKeyViolation } from '../storage/postgres/failures.ts'
import { runScript } from '../storage/postgres/scripts.ts'
import { escapeNul, unescapeNul } from '../storage/postgres/texts.ts'
import type { Script } from '../storage/scripts.ts'
import { accountGone } from '../storage/write-error.ts'
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
  type Recorder,
  recordOf,
  toRecord,
  toRow,
  unknownAfter,
} from './record.ts'

/**
 * Runs a change and writes its audit records in one transaction, then calls the `onRecord` of each record's actor.
 * @param timeoutMs how long the transaction may take; by default the time limit of a request
 * @throws ApiError 403 when the account was deleted; and the errors of `PostgresDatabase.transaction` and of the change
 */
export async function runAudited<T>(
  database: PostgresDatabase,
  change: (record: Recorder) => Script<T>,
  timeoutMs?: number,
): Promise<T> {
  let notifications: (() => void)[] = []
  try {
    const result = await database.transaction((sql) => {
      // The transaction may run several times; only the records of its last run are written.
      const ours: (() => void)[] = []
      notifications = ours
      function* record(by: Actor, entry: AuditEntry): Script<void> {
        yield async () => {
          const done = await writeRecord(sql, by, entry)
          ours.push(() => by.onRecord?.(done))
        }
      }
      return runScript(sql, change(record))
    }, timeoutMs)
    for (const notify of notifications) notify()
    return result
  } catch (error) {
    throw isForeignKeyViolation(error) ? accountGone(error) : error
  }
}

/**
 * Counts a change, and writes its record. The counter numbers the records in the order of the commits: once a number is visible, no lower number can
 * appear later.
 * @throws ApiError 429 when the actor may make no change more on this day
 */
export async function writeRecord(sql: Transaction, by: Actor, entry: AuditEntry): Promise<AuditRecord> {
  const record = recordOf(by, entry)
  for (const { subject, limit } of by.changeLimits ?? []) {
    const [row] = await sql<{ tokens: number }[]>`
      INSERT INTO spend (subject, day, tokens) VALUES (${subject}, ${dayOf(record.at * 1000)}, 1)
      ON CONFLICT (subject, day) DO UPDATE SET tokens = spend.tokens + 1 RETURNING tokens`
    checkChanges(limit, row?.tokens ?? 1)
  }
  const { id = null, name = null } = entry.account ?? {}
  const row = toRow(record)
  // The server runs the statements in this order, so the second statement sees the new value. Pipelining saves a round trip.
  await Promise.all([
    sql`UPDATE counters SET value = value + 1 WHERE name = 'audit_records'`,
    sql`
      INSERT INTO audit_records (seq, ${sql.unsafe(auditColumns)}, account, account_name)
      SELECT value, ${row.id}, ${row.at}::bigint, ${row.actor}, ${row.actor_key}, ${row.actor_account}, ${row.address},
        ${row.action}, ${row.target && escapeNul(row.target)}, ${row.before}, ${row.after}, ${id}::bigint,
        coalesce(${name}, (SELECT name FROM accounts WHERE accounts.id = ${id}))
      FROM counters WHERE name = 'audit_records'`,
  ])
  return record
}

/** The audit trail in PostgreSQL. */
export class PostgresAuditTrail implements AuditTrail {
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  async list(question: AuditQuestion): Promise<readonly AuditRecord[]> {
    const { after, limit } = question
    const rows = await this.#database.read(async (sql) => {
      const filter = conditions(sql, question)
      const [last] =
        after === undefined
          ? [{ seq: 0 }]
          : await sql<{ seq: number }[]>`SELECT seq FROM audit_records WHERE id = ${withoutNul(after)} ${filter}`
      if (!last) throw unknownAfter()
      return await sql<AuditRow[]>`
        SELECT ${sql.unsafe(auditColumns)} FROM audit_records WHERE seq > ${last.seq} ${filter} ORDER BY seq LIMIT ${limit}`
    })
    const toUnescaped = (row: AuditRow) => toRecord({ ...row, target: row.target && unescapeNul(row.target) })
    return rows.map(toUnescaped)
  }

  change<T>(change: (record: Recorder) => Script<T>): Promise<T> {
    return runAudited(this.#database, change)
  }

  async record(by: Actor, entry: AuditEntry): Promise<void> {
    await runAudited(this.#database, (record) => record(by, entry))
  }

  prune(before: number, max: number): Promise<number> {
    return this.#database.transaction(async (sql) => {
      const removed = await sql`
        DELETE FROM audit_records WHERE seq IN
          (SELECT seq FROM audit_records WHERE at < ${before} ORDER BY at LIMIT ${max})
        RETURNING seq`
      return removed.length
    })
  }
}

/** A search text without U+0000. No id and no name of an account has this character, and PostgreSQL refuses it in a text. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '')
}

/** The SQL conditions of a question, without its `after`. */
function conditions(sql: Queries, { since, accountId, accountName, action }: AuditQuestion) {
  return sql`
    ${accountName === undefined ? sql`` : sql`AND account_name = ${withoutNul(accountName)}`}
    ${accountId === undefined ? sql`` : sql`AND account = ${accountId}`}
    ${action === undefined ? sql`` : sql`AND action = ${action}`}
    ${since === undefined ? sql`` : sql`AND at >= ${since}`}`
}
