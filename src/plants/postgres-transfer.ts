import { type Recorder, withAuditRecords } from '../audit/postgres.ts'
import { commandLine } from '../audit/record.ts'
import { codeOf } from '../errors.ts'
import type { PostgresDatabase, Queries, Transaction } from '../storage/postgres/database.ts'
import { livingReplicas } from '../storage/postgres/replicas.ts'
import { accountGone } from '../storage/write-error.ts'
import { unixSeconds } from '../time.ts'
import { transferEntry } from './policy.ts'
import { type ExportSink, type PortablePlant, type PortableRow, TakenId, toPortable } from './portable.ts'
import { linesOfCopy } from './postgres-copy.ts'
import { renewVersions } from './postgres-versions.ts'
import { type ImportRow, importOf } from './rows.ts'
import {
  type DeletionFile,
  type Import,
  type ImportKey,
  importChanged,
  noImport,
  type PlantTransfers,
} from './transfers.ts'

/** The time limit of a batch, which may have to wait for locks. */
const maxWaitMs = 30_000
/** SQLSTATE unique_violation. */
const uniqueViolation = '23505'
/** The time limit of the count of an export. */
const maxCountMs = 600_000

/** Exports and imports accounts of PostgreSQL. */
export class PostgresTransfers implements PlantTransfers {
  readonly maxBatchMs = 15
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  /**
   * Looks for replicas, which register at their start, and for connections of other processes to the database. If the
   * server does not show its connections, a service counts as running. Connections of a pooler count as a service too, because
   * a service may use them.
   */
  isServiceRunning(): Promise<boolean> {
    return this.#database.read(async (sql) => {
      if ((await livingReplicas(sql)).length > 0) return true
      const own = this.#database.ports.map((port) => ({ port }))
      const others = sql`
        SELECT 1 FROM pg_stat_activity
        WHERE application_name = 'conservatory' AND datname = current_database()
          AND NOT (client_addr = inet_client_addr() AND client_port IN (
            SELECT port FROM json_to_recordset(${JSON.stringify(own)}::text::json) AS own (port INT))) LIMIT 1`
      return others.then(
        ({ length }) => length > 0,
        () => true,
      )
    })
  }

  async exportPlants(account: number, sink: ExportSink, by = commandLine): Promise<void> {
    await withAuditRecords(this.#database, async (sql, record) =>
      record(by, transferEntry('account.exported', account, await nameOf(sql, account))),
    )
    await this.copyPlants(account, sink)
  }

  async copyPlants(account: number, sink: ExportSink): Promise<void> {
    const handed = this.#database.snapshot(async function* (sql) {
      await sql.unsafe(`SET LOCAL statement_timeout = ${maxCountMs}`)
      const [counted] = await sql<{ count: number }[]>`SELECT count(*) FROM plants WHERE account = ${account}`
      sink.begin(counted?.count ?? 0)
      // One statement exports all plants. It runs until its output is read, so it has no time limit.
      await sql`SET LOCAL statement_timeout = 0`
      const all = `SELECT id, name, tag FROM plants WHERE account = ${account} ORDER BY id`
      for await (const lines of linesOfCopy(await sql.unsafe(`COPY (${all}) TO STDOUT`).readable())) {
        sink.add(lines)
        yield
      }
    })
    for await (const _ of handed);
    sink.end()
  }

  async hasIdBetween(account: number, first: number, last: number): Promise<boolean> {
    const rows = await this.#database.read(
      (sql) => sql`SELECT 1 FROM plants WHERE account = ${account} AND id BETWEEN ${first} AND ${last} LIMIT 1`,
    )
    return rows.length > 0
  }

  async findByIds(account: number, plants: readonly PortablePlant[]): Promise<readonly PortablePlant[]> {
    const ids = JSON.stringify(plants.map(({ id }) => ({ id })))
    const rows = await this.#database.read(
      (sql) => sql<PortableRow[]>`
        SELECT plants.id, name, tag FROM plants
        JOIN json_to_recordset(${ids}::text::json) AS asked (id BIGINT) ON plants.id = asked.id
        WHERE account = ${account}`,
    )
    return rows.map(toPortable)
  }

  findImport(key: ImportKey): Promise<Import | undefined> {
    return this.#database.read((sql) => readImport(sql, key))
  }

  async beginImport(
    { account, digest }: ImportKey,
    plants: number,
    highest: PortablePlant | undefined,
    by = commandLine,
  ): Promise<void> {
    await this.#adding(account, highest ? [highest] : [], async (sql, record) => {
      await lockAccount(sql, account)
      await sql`
        INSERT INTO imports (account, digest, plants, done, highest, undoing, created)
        VALUES (${account}, ${digest}, ${plants}, 0, ${highest?.id ?? null}, 0, ${unixSeconds()})
        ON CONFLICT (account, digest) DO UPDATE SET done = 0, undoing = 0, created = excluded.created`
      if (highest) {
        const { id, name, tag = null } = highest
        await sql`INSERT INTO plants (account, id, name, tag) VALUES (${account}, ${id}, ${name}, ${tag})`
      }
      await renewVersions(sql, [account])
      await record(by, transferEntry('account.imported', account, await nameOf(sql, account), plants))
    })
  }

  async addPlants({ account, digest }: ImportKey, at: number, plants: readonly PortablePlant[]): Promise<void> {
    await this.#adding(account, plants, async (sql) => {
      // The statements are pipelined: the server works while the next plants are read.
      const locked = lockAccount(sql, account)
      const saved = sql`
        UPDATE imports SET done = ${at + plants.length}
        WHERE account = ${account} AND digest = ${digest} AND done = ${at} AND undoing = 0`
      const added = sql`
        INSERT INTO plants (account, id, name, tag)
        SELECT ${account}::bigint, id, name, tag
        FROM json_to_recordset(${JSON.stringify(plants)}::text::json) AS new (id BIGINT, name TEXT, tag TEXT)
        WHERE id IS DISTINCT FROM (SELECT highest FROM imports WHERE account = ${account} AND digest = ${digest})`
      const renewed = renewVersions(sql, [account])
      await Promise.allSettled([locked, saved, added, renewed])
      await locked
      // If another command has written the same batch, `added` fails too, because the ids are taken. So `saved` is checked first.
      if ((await saved).count === 0) throw importChanged()
      await added
      await renewed
    })
  }

  beginUndo(key: ImportKey, by = commandLine): Promise<Import> {
    const { account, digest } = key
    return withAuditRecords(this.#database, async (sql, record) => {
      const found = await readImport(sql, key)
      if (!found) throw noImport()
      // The update waits until a batch that is being written is committed. So the import is read again afterwards.
      await sql`UPDATE imports SET undoing = 1 WHERE account = ${account} AND digest = ${digest}`
      if (!found.isUndoing) {
        await record(by, transferEntry('account.import_undone', account, await nameOf(sql, account), found.plants))
      }
      return (await readImport(sql, key)) ?? found
    })
  }

  async endUndo({ account, digest }: ImportKey): Promise<void> {
    await this.#database.transaction(
      (sql) => sql`DELETE FROM imports WHERE account = ${account} AND digest = ${digest}`,
    )
  }

  async removePlants(account: number, plants: readonly PortablePlant[]): Promise<number> {
    return await this.#database.transaction(async (sql) => {
      const [{ count }] = await Promise.all([
        sql`
          DELETE FROM plants USING json_to_recordset(${JSON.stringify(plants)}::text::json) AS gone (id BIGINT, name TEXT, tag TEXT)
          WHERE account = ${account} AND plants.id = gone.id AND plants.name = gone.name
            AND plants.tag IS NOT DISTINCT FROM gone.tag`,
        renewVersions(sql, [account]),
      ])
      return count
    })
  }

  async removeKeys(account: number, maxKeys: number): Promise<number> {
    const { count } = await this.#database.transaction(
      (sql) => sql`
        DELETE FROM idempotency_keys WHERE account = ${account} AND key IN
          (SELECT key FROM idempotency_keys WHERE account = ${account} LIMIT ${maxKeys})`,
    )
    return count
  }

  async deletionFiles(account: number): Promise<readonly DeletionFile[]> {
    const rows = await this.#database.read(
      (sql) => sql<{ file: string; complete: number }[]>`
        SELECT file, complete FROM deletions WHERE account = ${account} ORDER BY file`,
    )
    return rows.map(({ file, complete }) => ({ path: file, isComplete: complete === 1 }))
  }

  async saveDeletionFile(account: number, { path, isComplete }: DeletionFile): Promise<void> {
    await this.#database.transaction(
      (sql) => sql`
        INSERT INTO deletions (account, file, complete) VALUES (${account}, ${path}, ${Number(isComplete)})
        ON CONFLICT (account, file) DO UPDATE SET complete = excluded.complete`,
    )
  }

  async forgetDeletionFile(account: number, path: string): Promise<void> {
    await this.#database.transaction((sql) => sql`DELETE FROM deletions WHERE account = ${account} AND file = ${path}`)
  }

  /** Runs a transaction that adds these plants to an account. @throws TakenId for the first plant whose id is taken */
  async #adding(
    account: number,
    plants: readonly PortablePlant[],
    work: (sql: Transaction, record: Recorder) => Promise<void>,
  ): Promise<void> {
    try {
      await withAuditRecords(this.#database, work, maxWaitMs)
    } catch (error) {
      if (codeOf(error) !== uniqueViolation) throw error
      const taken = new Set((await this.findByIds(account, plants)).map(({ id }) => id))
      const first = plants.find(({ id }) => taken.has(id))
      // The plant with that id may have been removed meanwhile.
      if (!first) return await this.#adding(account, plants, work)
      throw new TakenId(first.id)
    }
  }
}

/** Removes an account's idempotency keys and grants. @returns false if the account has plants; then nothing is removed */
export async function removeRest(sql: Transaction, account: number): Promise<boolean> {
  if ((await sql`SELECT 1 FROM plants WHERE account = ${account} LIMIT 1`).length > 0) return false
  await sql`DELETE FROM idempotency_keys WHERE account = ${account}`
  await sql`DELETE FROM grants WHERE owner = ${account} OR grantee = ${account}`
  return true
}

/** Locks the account, so that no other transaction can add plants to it. @throws ApiError 403 when the account was deleted */
async function lockAccount(sql: Transaction, account: number): Promise<void> {
  const rows = await sql`SELECT id FROM accounts WHERE id = ${account} FOR NO KEY UPDATE`
  if (rows.length === 0) throw accountGone(undefined)
}

async function readImport(sql: Queries, { account, digest }: ImportKey): Promise<Import | undefined> {
  const [row] = await sql<ImportRow[]>`
    SELECT plants, done, highest, undoing FROM imports WHERE account = ${account} AND digest = ${digest}`
  return row && importOf(row)
}

/** @throws ApiError 403 when the account was deleted */
async function nameOf(sql: Queries, account: number): Promise<string> {
  const [row] = await sql<{ name: string }[]>`SELECT name FROM accounts WHERE id = ${account}`
  if (!row) throw accountGone(undefined)
  return row.name
}
