import type { PostgresDatabase, Queries, Transaction } from '../storage/postgres/database.ts'
import { escapeNul, unescapeNul } from '../storage/postgres/texts.ts'
import type { Actor, AuditEntry, AuditQuestion, AuditRecord, AuditTrail } from './record.ts'
import { type AuditRow, auditColumns, recordOf, toRecord, toRow, unknownAfter } from './rows.ts'

/** Puts on record what the transaction does that is under way; last of all, since others wait for it until that is over. */
export type Recorder = (by: Actor, entry: AuditEntry) => Promise<void>

/**
 * Does a change in one transaction with its records, which their actors hear of afterwards.
 * @param patience milliseconds that it may take, where that is more than for a request
 * @throws ApiError 503 as transactions do, and whatever the change throws
 */
export async function recording<T>(
  database: PostgresDatabase,
  change: (sql: Transaction, record: Recorder) => Promise<T>,
  patience?: number,
): Promise<T> {
  let written: (() => void)[] = []
  const result = await database.transaction(async (sql) => {
    // The transaction may run several times.
    const now: (() => void)[] = []
    written = now
    return await change(sql, async (by, entry) => {
      const done = await writeRecord(sql, by, entry)
      now.push(() => by.tell?.(done))
    })
  }, patience)
  for (const tell of written) tell()
  return result
}

/**
 * Writes a record. Its number is the next one, whoever writes: a number that can be seen has none below it that is still
 * to come.
 */
export async function writeRecord(sql: Transaction, by: Actor, entry: AuditEntry): Promise<AuditRecord> {
  const record = recordOf(by, entry)
  const { id = null, name = null } = entry.account ?? {}
  const row = toRow(record)
  // The second sees what the first has done: both go out at once.
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

  list(question: AuditQuestion): Promise<readonly AuditRecord[]> {
    const { after, limit } = question
    return this.#database.read(async (sql) => {
      const asked = conditions(sql, question)
      const [last] =
        after === undefined
          ? [{ seq: 0 }]
          : await sql<{ seq: number }[]>`SELECT seq FROM audit_records WHERE id = ${withoutNul(after)} ${asked}`
      if (!last) throw unknownAfter()
      const rows = await sql<AuditRow[]>`
        SELECT ${sql.unsafe(auditColumns)} FROM audit_records WHERE seq > ${last.seq} ${asked} ORDER BY seq LIMIT ${limit}`
      return rows.map((row) => toRecord({ ...row, target: row.target && unescapeNul(row.target) }))
    })
  }

  async record(by: Actor, entry: AuditEntry): Promise<void> {
    await recording(this.#database, (_sql, record) => record(by, entry))
  }

  prune(before: number, most: number): Promise<number> {
    return this.#database.transaction(async (sql) => {
      const removed = await sql`
        DELETE FROM audit_records WHERE seq IN
          (SELECT seq FROM audit_records WHERE at < ${before} ORDER BY at LIMIT ${most})
        RETURNING seq`
      return removed.length
    })
  }
}

/** What no id and no name has, and PostgreSQL takes in no text. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '')
}

/** What is asked for of a record, beside its place. */
function conditions(sql: Queries, { since, accountId, accountName, action }: AuditQuestion) {
  return sql`
    ${accountName === undefined ? sql`` : sql`AND account_name = ${withoutNul(accountName)}`}
    ${accountId === undefined ? sql`` : sql`AND account = ${accountId}`}
    ${action === undefined ? sql`` : sql`AND action = ${action}`}
    ${since === undefined ? sql`` : sql`AND at >= ${since}`}`
}
