import { expect, it, onTestFinished } from 'vitest'
import { digestKey } from '../../src/access/key.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

it('a replica that finds a key by its id after the key has ended no longer uses its cached copy of the key', async () => {
  const url = await newMigratedDatabase('read committed')
  const open = async () => {
    const stores = await openPostgresStores(url)
    onTestFinished(() => stores.close())
    return stores.access
  }
  const [replica, other] = await Promise.all([open(), open()])
  await other.createAccount('ann')
  const { key, secret } = await other.createKey({ account: 'ann', scopes: ['chat'] })
  const digest = digestKey(secret)
  expect(await replica.findKey(digest)).toMatchObject({ id: key.id, revoked: null })
  await other.revokeKey(key.id)
  expect(await replica.findKeyById(key.id)).toMatchObject({ revoked: expect.any(Number) })
  expect(await replica.findKey(digest)).toMatchObject({ id: key.id, revoked: expect.any(Number) })
})
