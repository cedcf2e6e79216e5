import { setImmediate as endOfTurn } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import { GroupCommit } from './group-commit.ts'
import { runLong } from './long-write.ts'
import { runScript, type Script, type Scripts } from './scripts.ts'

/** Runs scripts on a SQLite database. @param commit the group commit of all writes */
export class SqliteScripts implements Scripts {
  readonly #database: Database
  readonly #commit: GroupCommit
  readonly #asideCommit: GroupCommit
  /** The turn after the last portion in the queue. */
  #portions: Promise<unknown> = Promise.resolve()

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
    this.#asideCommit = new GroupCommit(database, 'NORMAL')
  }

  async read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.transaction(() => runScript(this.#database, script()))()
  }

  readPortion<T>(script: () => Script<T>): Promise<T> {
    const portion = this.#portions.then(() => this.read(script))
    const nextTurn = () => endOfTurn()
    this.#portions = portion.then(nextTurn, nextTurn)
    return portion
  }

  write<T>(_account: number, script: () => Script<T>): Promise<T> {
    return this.#commit.run(() => runScript(this.#database, script()))
  }

  writeLong<T>(_account: number, script: () => Script<T>): Promise<T> {
    return runLong(this.#database, script)
  }

  writeAside<T>(script: () => Script<T>): Promise<T> {
    return this.#asideCommit.run(() => runScript(this.#database, script()))
  }
}
