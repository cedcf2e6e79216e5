import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CharacterLimits, CharacterStore, VersionKey } from '../../src/characters/library/character.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'
import { wholeSource } from '../support/sources.ts'

const folder = temporaryFolder()
const opened: Record<string, Stores> = {}
beforeAll(async () => {
  opened['PostgreSQL'] = await openPostgresStores(await newMigratedDatabase('read committed'))
  opened['PostgreSQL, serializable'] = await openPostgresStores(await newMigratedDatabase('serializable'))
  opened['SQLite'] = openSqliteStores(join(folder.path, 'conservatory.db'))
})
afterAll(async () => {
  for (const stores of Object.values(opened)) await stores.close()
  folder.remove()
})

const day = 86_400
const never = 0

describe.each(['SQLite', 'PostgreSQL', 'PostgreSQL, serializable'])('versions of characters in %s', (engine) => {
  let accounts = 0
  const newAccount = async (): Promise<{ readonly id: number; readonly characters: CharacterStore }> => {
    const stores = opened[engine]
    if (!stores) throw new Error('the engine is not open')
    const { id } = await stores.access.createAccount(`account ${++accounts}`)
    return { id, characters: stores.characters }
  }
  const cardOf = (name: string, bytes = 10) => {
    const source = randomBytes(bytes)
    return { name, source, digest: createHash('sha256').update(source).digest('hex'), about: { tags: [], creator: '' } }
  }
  /** Uploads versions one after the other. @returns their digests */
  const upload = async (id: number, characters: CharacterStore, name: string, count: number) => {
    const digests: string[] = []
    for (let each = 0; each < count; each++) {
      const card = cardOf(name)
      await characters.put(id, card)
      digests.push(card.digest)
    }
    return digests
  }
  /** Purges until nothing is left to purge. @returns the removed versions of an account */
  const purge = async (characters: CharacterStore, account: number, usedSince: number) => {
    const removed: VersionKey[] = []
    for (let after = null, isLast = false; !isLast; ) {
      const step = await characters.purge(after, usedSince)
      removed.push(...step.removed)
      ;({ after, isLast } = step)
    }
    return removed.filter((version) => version.account === account).map(({ name, digest }) => ({ name, digest }))
  }
  const namesOf = (name: string, digests: readonly string[]) => digests.map((digest) => ({ name, digest }))
  const sorted = <T extends { readonly digest: string }>(versions: readonly T[]) =>
    versions.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))

  it('a card for an account that was deleted meanwhile is refused', async () => {
    const { id, characters } = await newAccount()
    const refused = { status: 403, code: 'account_deleted' }
    await expect(characters.put(id + 1000, cardOf('Fern'))).rejects.toMatchObject(refused)
  })

  it('the newest 20 versions, the current version and used versions are kept', async () => {
    const { id, characters } = await newAccount()
    const name = 'a\0\\b'
    const digests = await upload(id, characters, name, 45)
    await upload(id, characters, 'Other', 20)
    const [first = '', second = '', third = ''] = digests
    await characters.noteUses([{ account: id, name, digest: first }], 100 * day)
    await characters.noteUses([{ account: id, name, digest: second }], 10 * day)
    await characters.noteUses([{ account: id, name: 'nobody', digest: third }], 100 * day)
    const removed = await purge(characters, id, 50 * day)
    expect(sorted(removed)).toStrictEqual(sorted(namesOf(name, digests.slice(1, 25))))
    for (const digest of removed.map((version) => version.digest)) {
      expect(await characters.source(id, name, digest)).toBeUndefined()
      expect(await characters.findVersions(id, name, 'exact', digest)).toStrictEqual([])
    }
    for (const digest of [first, ...digests.slice(25)]) {
      expect(await wholeSource(characters, id, name, digest)).toBeInstanceOf(Buffer)
    }
    expect(await purge(characters, id, 50 * day)).toStrictEqual([])
    // A used version is removed too when its last use is long ago.
    expect(await purge(characters, id, 100 * day + 1)).toStrictEqual(namesOf(name, [first]))
  })

  it('a version that is uploaded again counts as the newest, and is kept', async () => {
    const { id, characters } = await newAccount()
    const card = cardOf('Fern')
    await characters.create(id, card)
    const digests = await upload(id, characters, 'Fern', 20)
    expect(await characters.put(id, card)).toBe(false)
    await upload(id, characters, 'Fern', 5)
    expect(sorted(await purge(characters, id, never))).toStrictEqual(sorted(namesOf('Fern', digests.slice(0, 6))))
    expect(await wholeSource(characters, id, 'Fern', card.digest)).toStrictEqual(card.source)
  })

  it('of a deleted character are removed 50 in a transaction, the oldest first, each with an audit record', async () => {
    const { id, characters } = await newAccount()
    const name = 'a\0\\b'
    const digests = await upload(id, characters, name, 120)
    await upload(id, characters, 'Other', 60)
    const [first = ''] = digests
    const card = cardOf(name)
    await characters.put(id, card)
    expect(await characters.remove(id, name)).toBe(true)
    expect(await characters.find(id, name, 'exact')).toBeUndefined()
    expect(await characters.findVersions(id, name, 'exact', first.slice(0, 8))).toStrictEqual([])
    expect(await characters.count(id)).toStrictEqual({ characters: 1, bytes: 600 })
    const records = (await opened[engine]?.audit.list({ accountId: id, limit: 1000 })) ?? []
    const ofDeletion = records.filter(({ action }) => action === 'character.purged' || action === 'character.deleted')
    const shown = (some: readonly string[]) => ({ digests: some.map((digest) => `sha256:${digest}`) })
    expect(ofDeletion.map(({ action, target, before }) => ({ action, target, before }))).toStrictEqual([
      { action: 'character.purged', target: name, before: shown(digests.slice(0, 50)) },
      { action: 'character.purged', target: name, before: shown(digests.slice(50, 100)) },
      { action: 'character.deleted', target: name, before: { digest: `sha256:${card.digest}` } },
    ])
    expect(await characters.remove(id, name)).toBe(false)
  })

  it('of many characters all surplus versions are removed, a few at a time', async () => {
    const { id, characters } = await newAccount()
    const names = Array.from({ length: 120 }, (_, index) => `many ${index}`)
    for (const name of names) await characters.create(id, cardOf(name))
    const first = await upload(id, characters, 'many 3', 41)
    const last = await upload(id, characters, 'many 99', 22)
    const step = await characters.purge({ account: id, name: '' }, never)
    expect(step.removed).toHaveLength(10)
    const removed = [...step.removed, ...(await purge(characters, id, never))]
    expect(removed).toHaveLength(42 - 20 + 23 - 20)
    const kept = [...first.slice(-20), ...last.slice(-20)]
    expect(removed.filter(({ digest }) => kept.includes(digest))).toStrictEqual([])
  })

  it('limits of an account count its versions’ bytes and its characters, and an upload that adds nothing is never refused', async () => {
    const { id, characters } = await newAccount()
    const refusal = (code: string) => ({ status: 429, code, headers: {} })
    const two: CharacterLimits = { characters: 2, bytes: 100 }
    const fern = cardOf('Fern', 40)
    await characters.create(id, fern, two)
    await characters.put(id, cardOf('Fern', 40), two)
    await expect(characters.put(id, cardOf('Fern', 21), two)).rejects.toMatchObject(refusal('character_bytes_limit'))
    await expect(characters.create(id, cardOf('Moss', 21), two)).rejects.toMatchObject(refusal('character_bytes_limit'))
    await expect(characters.put(id, cardOf('Moss', 21), two)).rejects.toMatchObject(refusal('character_bytes_limit'))
    expect(await characters.find(id, 'Moss', 'exact')).toBeUndefined()
    await characters.create(id, cardOf('Moss', 20), two)
    await expect(characters.create(id, cardOf('Rose', 0), two)).rejects.toMatchObject(refusal('characters_limit'))
    await expect(characters.create(id, fern, two)).rejects.toMatchObject({ code: 'name_taken' })
    // An upload that adds nothing is accepted even above a lowered limit.
    expect(await characters.put(id, fern, { characters: 0, bytes: 0 })).toBe(false)
    expect(await characters.find(id, 'Fern', 'exact')).toMatchObject({ digest: fern.digest })
    expect(await characters.remove(id, 'Fern')).toBe(true)
    await characters.create(id, cardOf('Rose', 80), two)
    await expect(characters.put(id, cardOf('Rose', 1), two)).rejects.toMatchObject(refusal('character_bytes_limit'))
  })

  it('concurrent uploads do not exceed a limit together', async () => {
    const { id, characters } = await newAccount()
    const all = Array.from({ length: 12 }, (_, index) => cardOf(`at once ${index}`, 10))
    const ended = await Promise.allSettled(
      all.map((card) => characters.create(id, card, { characters: 5, bytes: 1000 })),
    )
    expect(ended.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    const more = all.map(({ name }) => cardOf(name, 10))
    await Promise.allSettled(more.map((card) => characters.put(id, card, { characters: 12, bytes: 100 })))
    const kept = await Promise.all(
      [...all, ...more].map(async ({ name, digest }) => (await wholeSource(characters, id, name, digest))?.length ?? 0),
    )
    expect(kept.reduce((sum, bytes) => sum + bytes, 0)).toBe(100)
  })
})
