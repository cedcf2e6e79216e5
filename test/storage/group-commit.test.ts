import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { withWriteErrors } from '../../src/storage/write-error.ts'

/** A small database, and a function that runs writes in one turn of the event loop. */
function smallDatabase() {
  const database = new Database(':memory:')
  onTestFinished(() => void database.close())
  database.exec('CREATE TABLE notes (text TEXT UNIQUE) STRICT')
  database.pragma('max_page_count = 20')
  const insert = database.prepare('INSERT INTO notes VALUES (?)')
  const commit = new GroupCommit(database)
  const note = (text: string) => () => void insert.run(text)
  return {
    write: (...writes: readonly (() => void)[]) => Promise.allSettled(writes.map((write) => commit.run(write))),
    note,
    /** A write that does not fit into the database, so SQLite rolls back the whole transaction by itself. */
    tooLarge: note('x'.repeat(1_000_000)),
    notes: () => database.prepare<[], string>('SELECT text FROM notes ORDER BY text').pluck().all(),
  }
}

it.each<[string, (write: () => void) => void, object]>([
  ['throws', (write) => write(), { status: 507, code: 'disk_full' }],
  ['translates', (write) => withWriteErrors(write), { status: 507, code: 'disk_full' }],
  [
    'swallows',
    (write) => {
      try {
        write()
      } catch {}
    },
    { message: 'SQLite has undone the transaction that this write belongs to.' },
  ],
])(
  'when a write %s an error that has rolled the transaction back, no write of the turn is done or acknowledged',
  async (_, handle, expected) => {
    const { write, note, tooLarge, notes } = smallDatabase()
    const ended = await write(note('before'), () => handle(tooLarge), note('after'))
    expect(notes()).toStrictEqual([])
    for (const end of ended) expect(end).toMatchObject({ status: 'rejected', reason: expected })
    expect(await write(note('later'))).toMatchObject([{ status: 'fulfilled' }])
    expect(notes()).toStrictEqual(['later'])
  },
)
