import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CharacterStore } from '../../src/characters/library/character.ts'
import { notePictures } from '../../src/characters/picture-notes.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { cardOfV3, jsonBytes } from '../support/cards.ts'
import { TestClock } from '../support/clock.ts'
import { cardChunk, png } from '../support/containers.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

/* Uploads from before 0.2.0 have no note of whether they have a picture. The service adds the notes after its start. */

const folder = temporaryFolder()
const opened: Record<string, Stores> = {}
beforeAll(async () => {
  opened['PostgreSQL'] = await openPostgresStores(await newMigratedDatabase('read committed'))
  opened['SQLite'] = openSqliteStores(join(folder.path, 'conservatory.db'))
})
afterAll(async () => {
  for (const stores of Object.values(opened)) await stores.close()
  folder.remove()
})

const old = { tags: ['plants'], creator: 'Ada' }
const [minute, between] = [60_000, 20]

function stored(name: string, source: Buffer, about: { tags: string[]; creator: string; avatar?: boolean } = old) {
  return { name, source, digest: createHash('sha256').update(source).digest('hex'), about }
}

/** Runs the service's scan over all characters once. @returns its failures */
async function note(characters: CharacterStore): Promise<readonly unknown[]> {
  const clock = new TestClock()
  const failures: unknown[] = []
  const stop = notePictures({
    store: characters,
    clock,
    workOf: workAtOnce,
    during: (_account, _bytes, use) => use(),
    onFailure: (error) => failures.push(error),
  })
  for (const wait of [minute, between]) {
    await clock.untilWaiting(wait)
    clock.advance(wait)
  }
  // An empty page ends the scan.
  await clock.untilWaiting(between, false)
  await stop()
  return failures
}

describe.each(['SQLite', 'PostgreSQL'])('older uploads in %s', (engine) => {
  it('get a note of whether they have a picture, and no other field changes', async () => {
    const stores = opened[engine]
    if (!stores) throw new Error('the engine is not open')
    const { access, characters } = stores
    const { id } = await access.createAccount('ada')
    const other = await access.createAccount('bob')
    const picture = stored('a\0\\b', png(cardChunk('ccv3', cardOfV3)))
    const plain = stored('Plain', jsonBytes(cardOfV3))
    const noted = stored('Noted', jsonBytes({ ...cardOfV3, x: 1 }), { ...old, avatar: true })
    const unreadable = stored('Unreadable', Buffer.from('no card'))
    for (const card of [picture, plain, noted]) await characters.put(id, card)
    await characters.put(other.id, unreadable)
    const before = await characters.find(id, picture.name, 'exact')
    expect(before?.about).toEqual(old)

    expect(await note(characters)).toEqual([])
    expect(await characters.find(id, picture.name, 'exact')).toEqual({ ...before, about: { ...old, avatar: true } })
    expect((await characters.find(id, 'Plain', 'exact'))?.about).toEqual({ ...old, avatar: false })
    expect((await characters.find(id, 'Noted', 'exact'))?.about).toEqual(noted.about)
    expect((await characters.find(other.id, 'Unreadable', 'exact'))?.about).toEqual({ ...old, avatar: false })
    const { account, ...version } = { account: id, name: 'Plain', digest: picture.digest }
    await characters.noteAbout({ account, ...version }, old)
    expect((await characters.find(id, 'Plain', 'exact'))?.about).toEqual({ ...old, avatar: false })
  })
})
