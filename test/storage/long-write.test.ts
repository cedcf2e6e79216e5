import { join } from 'node:path'
import type { Database } from 'better-sqlite3'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { runLong } from '../../src/storage/long-write.ts'
import { query, type Script } from '../../src/storage/scripts.ts'
import { SqliteScripts } from '../../src/storage/sqlite-scripts.ts'
import { afterLongWrite, inTransaction, waitAsService } from '../../src/storage/write-lock.ts'
import { temporaryFolder } from '../support/service.ts'

describe('a long transaction', () => {
  let database: Database
  let scripts: SqliteScripts

  beforeEach(() => {
    const folder = temporaryFolder()
    database = openDatabase(join(folder.path, 'conservatory.db'))
    waitAsService(database)
    database.exec('CREATE TABLE notes (note TEXT NOT NULL)')
    scripts = new SqliteScripts(database, new GroupCommit(database))
    onTestFinished(() => {
      database.close()
      folder.remove()
    })
  })

  const add = (note: string) => query('INSERT INTO notes VALUES ($1)', note)
  const notes = () => database.prepare<[], string>('SELECT note FROM notes ORDER BY rowid').pluck().all()

  /** Works for longer than one turn of the event loop may take. */
  function useUpTurn(): void {
    for (const end = performance.now() + 10; performance.now() < end; );
  }

  it('lets others read the state before it, and their writes come after it', async () => {
    const writing: Promise<unknown>[] = []
    const seen: unknown[] = []
    await runLong(database, function* (): Script<void> {
      yield* add('long 1')
      useUpTurn()
      yield* query('SELECT 1')
      // The transaction has the write lock now.
      seen.push(notes())
      writing.push(
        scripts.write(1, () => add('in a group')),
        Promise.resolve(
          afterLongWrite(database, () =>
            inTransaction(database, () => database.exec("INSERT INTO notes VALUES ('alone')")),
          ),
        ),
        runLong(database, () => add('next')),
      )
      useUpTurn()
      yield* query('SELECT 1')
      useUpTurn()
      yield* add('long 2')
    })
    await Promise.all(writing)
    expect(seen).toEqual([[]])
    const all = notes()
    expect(all.slice(0, 2)).toEqual(['long 1', 'long 2'])
    expect(all.slice(2, 4).toSorted()).toEqual(['alone', 'in a group'])
    expect(all.slice(4)).toEqual(['next'])
  })

  it('that fails writes nothing, and later writes go on', async () => {
    const failed = runLong(database, function* (): Script<void> {
      yield* add('lost')
      throw new Error('fault')
    })
    const next = runLong(database, () => add('kept'))
    await expect(failed).rejects.toThrow('fault')
    await next
    await scripts.write(1, () => add('later'))
    expect(notes()).toEqual(['kept', 'later'])
  })
})
