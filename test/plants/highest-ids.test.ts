import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import { HighestIds } from '../../src/plants/highest-ids.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { temporaryFolder } from '../support/service.ts'

const account = 1

it('gives the id after the highest id, after any additions and removals in this transaction and earlier', async () => {
  const folder = temporaryFolder()
  const database = openDatabase(join(folder.path, 'plants.db'))
  const commit = new GroupCommit(database, 'NORMAL')
  onTestFinished(() => {
    database.close()
    folder.remove()
  })
  database.prepare("INSERT INTO accounts (id, name, created) VALUES (?, 'one', 0)").run(account)
  const insert = database.prepare("INSERT OR IGNORE INTO plants (account, id, name) VALUES (?, ?, 'n')")
  const remove = database.prepare('DELETE FROM plants WHERE account = ? AND id = ?')
  const highest = database.prepare<[number], number | null>('SELECT max(id) FROM plants WHERE account = ?').pluck()

  const write = fc.oneof(
    fc.constant({ kind: 'next' as const, id: 0 }),
    fc.record({ kind: fc.constantFrom('chosen' as const, 'removed' as const), id: fc.integer({ min: 1, max: 12 }) }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(write, { maxLength: 6 }), { maxLength: 5 }), async (commits) => {
      database.exec('DELETE FROM plants')
      const ids = new HighestIds(database, commit)
      for (const writes of commits) {
        const kept = writes.map(({ kind, id }) =>
          commit.run(() => {
            if (kind === 'removed') {
              ids.forget(account)
              remove.run(account, id)
            } else if (kind === 'chosen') {
              if (insert.run(account, id).changes > 0) ids.note(account, id)
            } else {
              const next = ids.next(account)
              expect(next).toBe((highest.get(account) ?? 0) + 1)
              insert.run(account, next)
            }
          }),
        )
        await Promise.all(kept)
      }
    }),
  )
})
