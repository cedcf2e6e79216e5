import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CharacterStore } from '../../src/characters/library/character.ts'
import { wholeOf } from '../../src/characters/library/character.ts'
import { pieceBytes, uploadTtlSeconds } from '../../src/characters/pieces.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { unixSeconds } from '../../src/time.ts'
import { often } from '../support/often.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'
import { wholeSource } from '../support/sources.ts'
import { openSqlOf, type TestSql } from '../support/test-sql.ts'

interface Opened {
  readonly stores: Stores
  readonly sql: TestSql
}

const folder = temporaryFolder()
const opened: Record<string, Opened> = {}
beforeAll(async () => {
  for (const isolation of ['read committed', 'serializable']) {
    const url = await newMigratedDatabase(isolation)
    const name = isolation === 'serializable' ? 'PostgreSQL, serializable' : 'PostgreSQL'
    opened[name] = { stores: await openPostgresStores(url), sql: openSqlOf(folder.path, url) }
  }
  const stores = openSqliteStores(join(folder.path, 'conservatory.db'))
  opened['SQLite'] = { stores, sql: openSqlOf(folder.path, undefined) }
})
afterAll(async () => {
  for (const { stores, sql } of Object.values(opened)) {
    await sql.close()
    await stores.close()
  }
  folder.remove()
})

function cardOf(name: string, source: Buffer) {
  return { name, source, digest: createHash('sha256').update(source).digest('hex'), about: { tags: [], creator: '' } }
}

/** Lengths, most of them near a multiple of a piece. */
const anyLength = fc.oneof(
  fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: -2, max: 2 })).map(([n, more]) => n * pieceBytes + more),
  fc.integer({ min: 0, max: 5 * pieceBytes }),
)

describe.each(['SQLite', 'PostgreSQL', 'PostgreSQL, serializable'])('cards in pieces in %s', (engine) => {
  let accounts = 0
  const here = async () => {
    const found = opened[engine]
    if (!found) throw new Error('the engine is not open')
    const { stores, sql } = found
    const name = `account ${++accounts}`
    const { id } = await stores.access.createAccount(name)
    return { id, name, stores, sql, characters: stores.characters }
  }
  /** The numbers of uploads and of pieces. */
  const kept = async (sql: TestSql) => {
    const counts = ['uploads', 'card_pieces'].map((table) =>
      sql.run<{ n: number }>(`SELECT count(*) AS n FROM ${table}`),
    )
    return (await Promise.all(counts)).map(([row]) => Number(row?.n))
  }
  /** Removes all leftover pieces. @returns how many rows each transaction removed */
  const sweep = async (characters: CharacterStore, before = unixSeconds() - uploadTtlSeconds) => {
    const removed: number[] = []
    for (;;) {
      const count = await characters.removeLeftovers(before, 500)
      if (count === 0) return removed
      removed.push(count)
    }
  }

  it('any bytes are read as they were written', async () => {
    const { id, characters } = await here()
    await fc.assert(
      fc.asyncProperty(anyLength, fc.boolean(), async (length, isNew) => {
        const card = cardOf(isNew ? `card ${randomBytes(8).toString('hex')}` : 'a\0\\b', randomBytes(length))
        await characters.put(id, card)
        const source = await characters.source(id, card.name, card.digest)
        expect([source?.length, await characters.size(id, card.name, card.digest)]).toEqual([length, length])
        const back = source && (await wholeOf(source))
        expect(back && Buffer.compare(back, card.source)).toBe(0)
      }),
      { numRuns: often(12) },
    )
  })

  it('a deleted card’s pieces are removed in batches, and a concurrent reader never gets a part of the card', async () => {
    const { id, characters, sql } = await here()
    await sweep(characters)
    const before = await kept(sql)
    const card = cardOf('Large', randomBytes(20 * pieceBytes))
    await characters.create(id, card)
    expect(await kept(sql)).toEqual([(before[0] ?? 0) + 1, (before[1] ?? 0) + 20])
    expect(await sweep(characters)).toEqual([])
    const source = await characters.source(id, 'Large', card.digest)
    expect(await characters.remove(id, 'Large')).toBe(true)
    expect(await sweep(characters)).toEqual([8, 8, 5])
    expect(await kept(sql)).toEqual(before)
    expect(source && (await wholeOf(source))).toBeUndefined()
    expect(await characters.source(id, 'Large', card.digest)).toBeUndefined()
  })

  it('dropped versions and deleted accounts leave no pieces', async () => {
    const { id, name, stores, characters, sql } = await here()
    await sweep(characters)
    const before = await kept(sql)
    for (let version = 0; version < 23; version++) {
      await characters.put(id, cardOf('Fern', randomBytes(version < 3 ? 2 * pieceBytes : 10)))
    }
    await characters.put(id, cardOf('Moss', randomBytes(2 * pieceBytes)))
    expect((await characters.purge({ account: id, name: '' }, 0)).removed).toHaveLength(3)
    await sweep(characters)
    expect(await kept(sql)).toEqual(before.map((count, index) => count + 1 + index))
    expect(await stores.deleteAccount(name)).toBe(true)
    expect(await kept(sql)).toEqual(before)
  })

  it('an upload that is refused at its start writes no piece, and an upload that is refused at its end leaves no piece', async () => {
    const { id, characters, sql } = await here()
    await sweep(characters)
    const before = await kept(sql)
    const large = () => cardOf('Fern', randomBytes(3 * pieceBytes))
    const most = { characters: 1, bytes: 4 * pieceBytes }
    await expect(characters.create(id, large(), { bytes: pieceBytes })).rejects.toMatchObject({ status: 429 })
    expect(await kept(sql)).toEqual(before)
    const first = large()
    await characters.create(id, first, most)
    await expect(characters.create(id, large())).rejects.toMatchObject({ code: 'name_taken' })
    await expect(characters.put(id, large(), most)).rejects.toMatchObject({ code: 'character_bytes_limit' })
    expect(await characters.put(id, first, most)).toBe(false)
    expect(await kept(sql)).toEqual([(before[0] ?? 0) + 1, (before[1] ?? 0) + 3])
    // These uploads run at the same time, and each is within the limit when it begins.
    const more = ['a', 'b', 'c'].map((name) => cardOf(name, randomBytes(3 * pieceBytes)))
    const ended = await Promise.allSettled(more.map((card) => characters.create(id, card, { characters: 2 })))
    expect(ended.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await sweep(characters)
    expect(await kept(sql)).toEqual([(before[0] ?? 0) + 2, (before[1] ?? 0) + 6])
  })

  it('the same version in two concurrent uploads is stored once', async () => {
    const { id, characters, sql } = await here()
    await sweep(characters)
    const before = await kept(sql)
    const card = cardOf('Twin', randomBytes(5 * pieceBytes))
    const isNew = await Promise.all([characters.put(id, card), characters.put(id, card)])
    expect(isNew.toSorted()).toEqual([false, true])
    await sweep(characters)
    expect(await kept(sql)).toEqual([(before[0] ?? 0) + 1, (before[1] ?? 0) + 5])
    expect((await wholeSource(characters, id, 'Twin', card.digest))?.equals(card.source)).toBe(true)
  })

  it('a second upload of a large version, while the version is being removed, is refused or written in pieces, and never in one statement', async () => {
    const { id, characters, sql } = await here()
    const card = cardOf('Phoenix', randomBytes(5 * pieceBytes))
    for (let round = 0; round < often(5); round++) {
      await characters.put(id, card)
      const [, again] = await Promise.allSettled([characters.remove(id, 'Phoenix'), characters.put(id, card)])
      if (again.status === 'rejected') expect(again.reason).toMatchObject({ status: 503 })
      else expect((await wholeSource(characters, id, 'Phoenix', card.digest))?.equals(card.source) ?? true).toBe(true)
      const [row] = await sql.run<{ n: number }>(
        `SELECT count(*) AS n FROM character_versions WHERE length(source) > ${pieceBytes}`,
      )
      expect(Number(row?.n)).toBe(0)
    }
    await sweep(characters)
  })

  it('pieces of a running upload are kept for an hour; after that the upload is refused, and no piece is left', async () => {
    const { id, characters, sql } = await here()
    await sweep(characters)
    const before = await kept(sql)
    const card = cardOf('Slow', randomBytes(40 * pieceBytes))
    /** Uploads the card, and calls `look` until the upload is over, at least twice. */
    const uploadBeside = async (look: () => Promise<unknown>) => {
      let isOver = false
      const writing = characters.create(id, card).finally(() => {
        isOver = true
      })
      writing.catch(() => undefined)
      let looks = 0
      for (; !isOver || looks === 0; looks++) await look()
      expect(looks).toBeGreaterThan(1)
      return writing
    }
    const tooOld = uploadBeside(() => sweep(characters, unixSeconds() + 10))
    await expect(tooOld).rejects.toMatchObject({ status: 503, code: 'overloaded' })
    await sweep(characters)
    expect(await characters.find(id, 'Slow', 'exact')).toBeUndefined()
    expect(await kept(sql)).toEqual(before)
    await uploadBeside(() => sweep(characters))
    expect((await wholeSource(characters, id, 'Slow', card.digest))?.equals(card.source)).toBe(true)
  })
})
