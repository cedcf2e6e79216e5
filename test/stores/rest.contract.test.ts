import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findAccount, type Key } from '../../src/access/access.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { importInto } from '../support/account-files.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

const folder = temporaryFolder()
const opened: Record<string, Stores> = {}
beforeAll(async () => {
  opened['PostgreSQL'] = await openPostgresStores(await newPostgresDatabase('serializable'))
  opened['SQLite'] = openSqliteStores(join(folder.path, 'conservatory.db'))
})
afterAll(async () => {
  await opened['PostgreSQL']?.close()
  folder.remove()
})

describe.each(['SQLite', 'PostgreSQL'])('the stores beside plants in %s', (engine) => {
  const stores = (): Stores => {
    const found = opened[engine]
    if (!found) throw new Error('the engine is not open')
    return found
  }

  it('store accounts and keys, and keep one working admin key', async () => {
    const { access, transfers } = stores()
    const request = { account: 'first', scopes: ['admin'] } as const
    const made = await Promise.all([1, 2, 3].map(() => access.createFirstAccount(request)))
    const [first] = made.filter((each) => each !== null)
    expect(made.filter((each) => each !== null)).toHaveLength(1)
    const prefix = first?.key.prefix ?? ''
    await expect(access.revokeKey(prefix)).rejects.toMatchObject({ code: 'last_admin_key' })
    await expect(access.createAccount('first')).rejects.toThrow('There is an account "first" already.')
    const account = (await findAccount(access, 'first')).id
    await importInto(transfers, account, [{ id: 7, name: 'Fern' }])
    await expect(importInto(transfers, account, [{ id: 7, name: 'Moss' }])).rejects.toThrow('id 7 already')
    const second = await access.rotateKey(prefix, 0)
    await expect(access.rotateKey(prefix, 0)).rejects.toMatchObject({ code: 'key_ended' })
    expect((await access.findKeyById(second.key.id))?.revoked).toBeNull()
    await access.noteUses(new Map([[second.key.id, 5]]))
    expect((await access.listKeys('first')).find(({ id }) => id === second.key.id)?.lastUsed).toBe(5)
  })

  it('list keys in the order of their creation, keys of one second by their ids', async () => {
    const { access } = stores()
    await access.createAccount('ordered')
    for (let made = 0; made < 10; made++) await access.createKey({ account: 'ordered', scopes: ['chat'] })
    const order = (keys: readonly Key[]) => keys.map(({ created, id }) => `${created} ${id}`)
    const listed = order(await access.listKeys('ordered'))
    expect(listed).toHaveLength(10)
    expect(listed).toStrictEqual(listed.toSorted())
    const all = order(await access.listKeys())
    expect(all).toStrictEqual(all.toSorted())
  })

  it('find a key by the whole key, its id, its prefix or a beginning of the prefix, and list keys with the same beginning', async () => {
    const { access, deleteAccount } = stores()
    await access.createAccount('named')
    // No random key begins like this.
    const create = (secret: string) => access.createKey({ account: 'named', scopes: ['chat'], secret })
    const { key } = await create('cv_!!12-the-first-of-them')
    await create('cv_!!34-the-second-of-them')
    await create('it%_ is preset')
    const found = async (text: string) => (await access.limitKey(text, {})).prefix
    for (const text of ['cv_!!12-the-first-of-them', key.id, 'cv_!!12', 'cv_!!1']) {
      expect(await found(text)).toBe('cv_!!12')
    }
    expect(await found('cv_!!3')).toBe('cv_!!34')
    expect(await found('it%_')).toBe('it%_')
    for (const text of ['cv_!!', 'cv_!']) {
      await expect(found(text)).rejects.toThrow(
        `Several keys begin with "${text}": cv_!!12 of "named", cv_!!34 of "named". Name one of them.`,
      )
    }
    for (const digit of '0123456789a') await create(`cv_?a${digit}?-one-of-eleven`)
    await expect(found('cv_?a')).rejects.toThrow(/^Several .* cv_\?a9\? of "named" and more\. Name one of them\.$/)
    for (const text of ['', 'c', 'cv_', 'it%', 'cv_%', 'cv_!!12-', 'CV_!!1', key.id.slice(0, -1), '\0']) {
      await expect(found(text)).rejects.toThrow('There is no such key.')
    }
    await deleteAccount('named')
  })

  it('count spent tokens once', async () => {
    const { ledger, usage } = stores()
    const names = { keyId: 'k', keyPrefix: 'cv_k', model: 'best', modelUsed: null, character: null }
    const counts = {
      reservedTokens: 9,
      promptTokens: 0,
      completionTokens: 0,
      firstTokenMs: null,
      totalMs: 1,
      retries: 0,
    }
    const entry = { id: 'r1', account: 1, created: 86_400, tokensExact: true, state: 'running', ...names, ...counts }
    await ledger.begin(entry)
    await ledger.finish({ ...entry, promptTokens: 3, completionTokens: 2, state: 'stop' })
    ledger.record({ ...entry, id: 'r2', promptTokens: 4, state: 'timeout' })
    expect(await ledger.spent('key:k', '1970-01-02', '1970-01-02')).toBe(9)
    await ledger.flush()
    expect(await usage.find(1, 'r1')).toMatchObject({ state: 'stop', promptTokens: 3, tokensExact: true })
    expect(await usage.sum({ by: 'day', from: 0, until: 100_000 })).toStrictEqual([
      { group: '1970-01-02', requests: 2, promptTokens: 7, completionTokens: 2, failed: 1 },
    ])
  })
})
