import { join } from 'node:path'
import type { Database } from 'better-sqlite3'
import fc from 'fast-check'
import { expect, it, onTestFinished } from 'vitest'
import { ConsecutiveIds } from '../../src/plants/consecutive-ids.ts'
import { JoinedJson, type RangePart } from '../../src/plants/joined-json.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { temporaryFolder } from '../support/service.ts'

const account = 1

/** A database with one account without plants, and a function that replaces its plants by plants with these ids. */
function openPlants() {
  const folder = temporaryFolder()
  const database = openDatabase(join(folder.path, 'plants.db'))
  onTestFinished(() => {
    database.close()
    folder.remove()
  })
  database.prepare("INSERT INTO accounts (id, name, created) VALUES (?, 'one', 0)").run(account)
  const insert = database.prepare('INSERT INTO plants (account, id, name, tag) VALUES (?, ?, ?, ?)')
  const setIds = database.transaction((ids: readonly number[]) => {
    database.exec('DELETE FROM plants')
    for (const id of ids) insert.run(account, id, `Plant "${id}"`, id % 3 === 0 ? 'aroid' : null)
  })
  return { database, setIds }
}

/** A simple version of `JoinedJson` and `ConsecutiveIds`: it reads the rows one by one, and one row more than the limit. */
function rowByRow(database: Database, afterId: number, limit: number): RangePart {
  const rows = database
    .prepare<[number, number, number], { readonly id: number; readonly json: string }>(
      'SELECT id, json FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT ?',
    )
    .all(account, afterId, limit + 1)
  const shown = rows.slice(0, limit)
  const json = `[${shown.map((row) => row.json).join(',')}]`
  return { json, count: shown.length, lastId: shown.at(-1)?.id, isLonger: rows.length > limit }
}

/** Drops the last id of a part with fewer plants than the limit: no caller uses that id, and the two implementations differ in it. */
function essential({ lastId, ...piece }: RangePart, limit: number): object {
  return piece.count < limit ? piece : { ...piece, lastId }
}

/** Realistic ids: runs of consecutive ids, with gaps between. */
const ids = fc
  .array(fc.record({ gap: fc.integer({ min: 0, max: 5 }), length: fc.integer({ min: 1, max: 12 }) }), { maxLength: 6 })
  .map((stretches) => {
    let next = 1
    return stretches.flatMap(({ gap, length }) => {
      const first = next + gap
      next = first + length
      return Array.from({ length }, (_none, index) => first + index)
    })
  })
const afterId = fc.oneof(fc.integer({ min: -2, max: 80 }), fc.constant(Number.NEGATIVE_INFINITY))
const questions = fc.array(fc.tuple(afterId, fc.integer({ min: 1, max: 15 })), { minLength: 1, maxLength: 20 })

it('joins the JSON of a page as if its rows were read one by one', () => {
  const { database, setIds } = openPlants()
  const joined = new JoinedJson(database, 'json')
  fc.assert(
    fc.property(ids, questions, (plants, asked) => {
      setIds(plants)
      for (const [after, limit] of asked) {
        const found = essential(joined.read(account, after, limit), limit)
        expect(found).toEqual(essential(rowByRow(database, after, limit), limit))
      }
    }),
  )
})

it('a guess of consecutive ids gives the same page as reading row by row, or no page', () => {
  const { database, setIds } = openPlants()
  let guesses = 0
  fc.assert(
    fc.property(ids, questions, (plants, asked) => {
      setIds(plants)
      const consecutive = new ConsecutiveIds(database, 'json')
      for (const [after, limit] of asked) {
        const counted = rowByRow(database, after, limit)
        const guessed = consecutive.read(account, after, limit)
        if (guessed) expect(essential(guessed, limit)).toEqual(essential(counted, limit))
        else consecutive.learn(after, limit, counted)
        guesses += guessed ? 1 : 0
      }
    }),
  )
  expect(guesses).toBeGreaterThan(0)
})
