import type { Database } from 'better-sqlite3'
import type { Recorder } from '../audit/record.ts'
import { runAudited } from '../audit/sqlite.ts'
import { type OutsideChanges, VersionedCache } from '../storage/caches.ts'
import { takeBriefly } from '../storage/prune.ts'
import { rowsOf, runScript, type Script, sql } from '../storage/scripts.ts'
import { afterLongWrite, inTransaction } from '../storage/write-lock.ts'
import { endOfRow } from './rows.ts'
import { DatabaseAccessStore } from './store.ts'

/** Accounts and keys in SQLite, which has one writer at a time, so rows need no locks. */
export class SqliteAccessStore extends DatabaseAccessStore {
  protected readonly forUpdate = sql``
  protected readonly forNoKeyUpdate = sql``
  protected readonly newAccountId = sql`
    SELECT coalesce(max(seq), 0) + 1 AS id FROM sqlite_sequence WHERE name = 'accounts'`
  readonly #database: Database

  constructor(database: Database, changes: OutsideChanges) {
    super(new VersionedCache(changes))
    this.#database = database
  }

  protected async read<T>(script: () => Script<T>): Promise<T> {
    return runScript(this.#database, script())
  }

  protected async write<T>(script: (record: Recorder) => Script<T>): Promise<T> {
    return await afterLongWrite(this.#database, () => runAudited(this.#database, script))
  }

  protected *lockAccounts(): Script<void> {}

  async prune(before: number, max: number): Promise<number> {
    // If there is nothing to remove, the write lock is not taken.
    const ended = sql`SELECT id FROM keys WHERE ${endOfRow} < ${before}`
    if ((await this.read(() => rowsOf(sql`${ended} LIMIT 1`))).length === 0) return 0
    const remove = (count: number) =>
      rowsOf(sql`DELETE FROM keys WHERE id IN (${ended} ORDER BY ${endOfRow} LIMIT ${count}) RETURNING id`)
    const removeSome = () => takeBriefly(max, (count) => runScript(this.#database, remove(count)).length)
    return await afterLongWrite(this.#database, () => inTransaction(this.#database, removeSome))
  }

  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    // The cache is not emptied: no reader of the cache uses the last use of a key.
    const note = this.#database.prepare<[number, string]>('UPDATE keys SET last_used = ? WHERE id = ?')
    const noteAll = () => uses.forEach((moment, id) => void note.run(moment, id))
    await afterLongWrite(this.#database, () => inTransaction(this.#database, noteAll))
  }
}
