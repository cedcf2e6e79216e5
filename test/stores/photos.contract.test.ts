import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { digestOf } from '../../src/bytes.ts'
import { maxPhotoBytes, type NewPhoto } from '../../src/plants/photo.ts'
import { Photos } from '../../src/plants/photos.ts'
import { rowOf, type Scripts, sql } from '../../src/storage/scripts.ts'
import { unixSeconds } from '../../src/time.ts'
import { engines } from '../support/engines.ts'
import { often } from '../support/often.ts'

const pieceBytes = 256 * 1024

/** A photo of so many bytes, each of this value. */
function photoOf(bytes: number, value = 1): NewPhoto {
  const picture = Buffer.alloc(bytes, value)
  return { facts: { type: 'image/png', bytes, digest: `sha256:${digestOf(picture)}` }, picture }
}

const refusedWith = (status: number, code: string) => ({ status, code })

describe.each(engines)('photos over $name', (engine) => {
  async function scene() {
    const database = await engine.openDatabase()
    onTestFinished(() => database.close())
    const [plants, scripts] = [database.openPlants(), database.openScripts()]
    const photos = new Photos(plants, scripts)
    const account = await database.newAccount()
    for (const id of [1, 2]) await plants.create(account, { name: 'Fern', id })
    const count = (table: 'photos' | 'photo_pieces') => countOf(scripts, table)
    /** Removes all that is left, as the service does. */
    const prune = async (before = 1) => {
      while ((await photos.prune(before)) > 0);
    }
    const read = async (plant: number) => photos.read(await photos.find(account, plant))
    return { database, plants, scripts, photos, account, count, prune, read }
  }

  async function countOf(scripts: Scripts, table: 'photos' | 'photo_pieces'): Promise<number> {
    const statement =
      table === 'photos' ? sql`SELECT count(*) AS n FROM photos` : sql`SELECT count(*) AS n FROM photo_pieces`
    return (await scripts.read(() => rowOf<{ n: number }>(statement)))?.n ?? 0
  }

  it('of any size come back as they are, and only the last one stays', async () => {
    const { photos, account, read, prune, count } = await scene()
    const anySize = fc.oneof(
      fc
        .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: -1, max: 1 }))
        .map(([n, more]) => n * pieceBytes + more),
      fc.integer({ min: 1, max: 1000 }),
    )
    await fc.assert(
      fc.asyncProperty(anySize, fc.integer({ min: 0, max: 255 }), async (bytes, value) => {
        const photo = photoOf(bytes, value)
        await photos.put(account, 1, photo)
        expect((await read(1))?.equals(photo.picture)).toBe(true)
        expect(await photos.bytesOf(account)).toBe(bytes)
        await prune()
        expect([await count('photos'), await count('photo_pieces')]).toEqual([1, Math.ceil(bytes / pieceBytes)])
      }),
      { numRuns: often(10) },
    )
  })

  it('that are sent at the same time are one of them, whole', async () => {
    const { photos, account, read, prune, count } = await scene()
    const all = [1, 2, 3].map((value) => photoOf(2 * pieceBytes + 1, value))
    await Promise.all(all.map((photo) => photos.put(account, 1, photo)))
    const shown = await read(1)
    expect(all.some(({ picture }) => shown?.equals(picture))).toBe(true)
    await prune()
    expect([await count('photos'), await count('photo_pieces')]).toEqual([1, 3])
    expect(await photos.bytesOf(account)).toBe(2 * pieceBytes + 1)
  })

  it('do not exceed a limit together, and count no bytes of refused ones', async () => {
    const { photos, account, count } = await scene()
    const results = await Promise.allSettled([1, 2].map((plant) => photos.put(account, plant, photoOf(60, plant), 100)))
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const refusal = refusedWith(429, 'photo_bytes_limit')
    expect(results.find(({ status }) => status === 'rejected')).toMatchObject({ reason: refusal })
    expect([await count('photos'), await photos.bytesOf(account)]).toEqual([1, 60])
  })

  it('of a deleted plant count no more at once, and their pieces are removed in portions', async () => {
    const { plants, scripts, photos, account, count, prune } = await scene()
    await photos.put(account, 1, photoOf(maxPhotoBytes))
    await photos.put(account, 2, photoOf(5))
    const photo = await photos.find(account, 1)
    expect(await plants.remove(account, 1)).toBe(true)
    expect(await photos.bytesOf(account)).toBe(5)
    await expect(photos.find(account, 1)).rejects.toMatchObject(refusedWith(404, 'unknown_plant'))
    expect(await photos.prune(1)).toBe(8)
    expect(await count('photo_pieces')).toBe(25)
    expect(await photos.read(photo)).toBeUndefined()
    await prune()
    expect([await count('photos'), await count('photo_pieces')]).toEqual([1, 1])
    const held = await scripts.read(() => rowOf(sql`SELECT photo_bytes FROM holdings WHERE account = ${account}`))
    expect(held).toEqual({ photo_bytes: 5 })
  })

  it('of a plant that is deleted meanwhile are refused with a 404, and leave nothing', async () => {
    const { plants, photos, account, count, prune } = await scene()
    const putting = photos.put(account, 1, photoOf(20 * pieceBytes))
    const [put, removed] = await Promise.allSettled([putting, plants.remove(account, 1)])
    expect(removed).toEqual({ status: 'fulfilled', value: true })
    if (put.status === 'rejected') expect(put.reason).toMatchObject(refusedWith(404, 'unknown_plant'))
    expect(await photos.bytesOf(account)).toBe(0)
    await prune()
    expect([await count('photos'), await count('photo_pieces')]).toEqual([0, 0])
  })

  it('that a killed service has left unfinished are removed after an hour, also of an account that is gone', async () => {
    const { database, photos, account, count, prune } = await scene()
    await database.run(`
      INSERT INTO photos (id, owner, bytes, begun) VALUES ('unfinished', ${account}, 9, ${unixSeconds()}), ('left', 99, 7, 0);
      INSERT INTO holdings (account, photo_bytes) VALUES (${account}, 9)`)
    await database.run(
      "INSERT INTO photo_pieces (photo, place, bytes) SELECT id, 0, '' FROM photos".replace(
        "''",
        engine.hasReplicas ? "'\\x00'" : "x'00'",
      ),
    )
    await prune(unixSeconds() - 3600)
    expect([await count('photos'), await photos.bytesOf(account)]).toEqual([1, 9])
    await prune(unixSeconds() + 1)
    expect([await count('photos'), await count('photo_pieces'), await photos.bytesOf(account)]).toEqual([0, 0, 0])
  })
})
