import { join } from 'node:path'
import { setImmediate as endOfTurn } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import fc from 'fast-check'
import { expect, it, onTestFinished, vi } from 'vitest'
import { OutsideChanges, ShortLivedCache, VersionedCache } from '../../src/storage/caches.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { temporaryFolder } from '../support/service.ts'

/** Two connections to a database with a table of answers, and for each connection a function that writes an answer. */
function openTwice() {
  const folder = temporaryFolder()
  const path = join(folder.path, 'conservatory.db')
  const [here, elsewhere] = [openDatabase(path), openDatabase(path)]
  onTestFinished(() => {
    here.close()
    elsewhere.close()
    folder.remove()
  })
  here.exec('CREATE TABLE answers (question TEXT PRIMARY KEY, answer INTEGER NOT NULL)')
  const writerOf = (database: Database) => {
    database.pragma('synchronous = OFF')
    const write = database.prepare<[string, number]>('INSERT OR REPLACE INTO answers VALUES (?, ?)')
    return (question: string, answer: number) => write.run(question, answer)
  }
  return { here, writeHere: writerOf(here), writeElsewhere: writerOf(elsewhere) }
}

it('the version in each turn of the event loop is the version that SQLite had at the first question of the turn', async () => {
  const { here, writeHere, writeElsewhere } = openTwice()
  const dataVersion = here.prepare<[], number>('PRAGMA data_version').pluck()
  const changes = new OutsideChanges(here)
  const steps = fc.array(fc.constantFrom('look', 'write here', 'write elsewhere', 'end the turn'), { maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(steps, async (taken) => {
      await endOfTurn()
      let version: number | undefined
      for (const [index, step] of taken.entries()) {
        if (step === 'look') {
          version ??= dataVersion.get()
          expect(changes.version()).toBe(version)
        } else if (step === 'end the turn') {
          await endOfTurn()
          version = undefined
        } else if (step === 'write here') writeHere('a', index)
        else writeElsewhere('a', index)
      }
    }),
  )
})

it('the cache gives the current answers of the database; a write of another connection counts from the next turn on', async () => {
  const { here, writeHere, writeElsewhere } = openTwice()
  const select = here.prepare<[string], number>('SELECT answer FROM answers WHERE question = ?').pluck()
  const read = (question: string) => select.get(question) ?? -1
  const cache = new VersionedCache<number>(new OutsideChanges(here))
  const step = fc.record({
    kind: fc.constantFrom('ask', 'ask', 'ask', 'write here', 'write elsewhere'),
    question: fc.constantFrom('a', 'b'),
    answer: fc.nat(),
  })
  let hits = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      for (const { kind, question, answer } of steps) {
        if (kind === 'ask') {
          const known = cache.get(question)
          hits += known === undefined ? 0 : 1
          expect(known ?? cache.set(question, read(question))).toBe(read(question))
        } else if (kind === 'write here') {
          writeHere(question, answer)
          cache.forget()
        } else {
          writeElsewhere(question, answer)
          await endOfTurn()
        }
      }
    }),
  )
  expect(hits).toBeGreaterThan(0)
})

it.each([
  ['a database of this process', () => new VersionedCache<readonly string[]>(new OutsideChanges(openTwice().here))],
  ['a database of several replicas', () => new ShortLivedCache<readonly string[]>()],
])(
  'the cache for %s has room for 5,000 small answers, and for some hundred answers of 50 kB',
  (_database, newCache) => {
    // Answers for several replicas expire after half a second, and a busy machine may need longer for this test.
    const now = vi.spyOn(performance, 'now').mockReturnValue(0)
    onTestFinished(() => now.mockRestore())
    const cache = newCache()
    const cached = (count: number, answer: readonly string[]) => {
      const questions = Array.from({ length: count }, (_none, index) => `${index}`)
      for (const question of questions) cache.set(question, answer)
      return questions.filter((question) => cache.get(question) !== undefined).length
    }
    // The first question empties the cache, which knows no version of the database yet.
    cache.get('')
    expect(cached(5000, ['chat'])).toBe(5000)
    cache.forget()
    const models = Array.from({ length: 100 }, (_none, index) => `${index}`.padEnd(255, 'Ā'))
    expect(cached(2000, models)).toBeLessThan(400)
  },
)
