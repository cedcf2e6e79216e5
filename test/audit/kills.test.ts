import { expect, it } from 'vitest'
import type { AuditRecord } from '../../src/audit/record.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { importInto } from '../support/account-files.ts'
import { allRecords } from '../support/audit.ts'
import { often } from '../support/often.ts'
import { folderForThisTest, preset, start } from '../support/preset-service.ts'
import { openStoresOf } from '../support/test-database.ts'

const writers = 8
const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
const card = (name: string, description: string) =>
  JSON.stringify({ spec: 'chara_card_v2', spec_version: '2.0', data: { name, description } })

/**
 * Sends a request.
 * @returns the body; undefined after a kill; an empty text after a 503 of the busy service or a 404. The 404 is for a character
 *   that does not exist because its PUT got a 503
 */
async function send(url: string, method: string, body?: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) })
    if (response.status === 503 || response.status === 404) return ''
    if (!response.ok) throw new Error(`${method} ${url} was answered with ${response.status}.`)
    return await response.text()
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** Creates and rotates keys, and puts and deletes a character, until the service is killed. */
async function write(url: string, writer: number, onDone: () => void): Promise<void> {
  for (let count = 0; ; count++) {
    const made = await send(`${url}/keys`, 'POST', JSON.stringify({ scopes: ['chat'] }))
    if (made === undefined) return
    if (made === '') continue
    const { id }: { id: string } = JSON.parse(made)
    const changes = [
      () => send(`${url}/keys/${id}/rotate`, 'POST', JSON.stringify({ overlap_seconds: 0 })),
      () => send(`${url}/characters/Moss-${writer}`, 'PUT', card('Moss', `${writer} ${count} ${id}`)),
      ...(count % 3 === 2 ? [() => send(`${url}/characters/Moss-${writer}`, 'DELETE')] : []),
    ]
    for (const change of changes) {
      if ((await change()) === undefined) return
      onDone()
    }
  }
}

/** The state that the audit records describe: for each key by its prefix whether it has ended, and the digests of characters. */
function replayed(records: readonly AuditRecord[]) {
  const keys = new Map<string, boolean>()
  const characters = new Map<string, unknown>()
  for (const { action, target, after } of records) {
    if (target === null) continue
    if (action === 'key.created') keys.set(target, false)
    if (action === 'key.revoked' || action === 'key.rotated') keys.set(target, true)
    if (action === 'key.rotated') keys.set(String(after?.['successor']), false)
    if (action === 'character.deleted') characters.delete(target)
    else if (action.startsWith('character.')) characters.set(target, after?.['digest'])
  }
  return { keys, characters }
}

/** The state that the stores show, in the same form. */
async function stateOf({ access, characters }: Stores) {
  const [owner] = await access.listAccounts()
  const stored = await characters.list(owner?.id ?? 0, '', 1000)
  return {
    keys: new Map((await access.listKeys()).map(({ prefix, revoked }) => [prefix, revoked !== null])),
    characters: new Map(stored.map(({ name, digest }) => [name, `sha256:${digest}`])),
  }
}

it('after each kill -9 while clients write, a change and its record both exist, or neither exists', async () => {
  const folder = folderForThisTest()
  let done = 0
  for (let round = 0; round < often(2); round++) {
    const service = await start(folder)
    const enough = done + 40 + Math.random() * 60
    await new Promise<void>((resolve, reject) => {
      const onDone = () => {
        done++
        if (done >= enough) service.process.kill('SIGKILL')
      }
      const writing = Array.from({ length: writers }, (_, writer) => write(service.url, writer, onDone))
      Promise.all(writing).then(() => resolve(), reject)
    })
    await service.exited
    const stores = await openStoresOf(folder)
    const records = await allRecords(stores)
    expect(replayed(records)).toEqual(await stateOf(stores))
    expect(new Set(records.map(({ id }) => id)).size).toBe(records.length)
    expect(records.length).toBeGreaterThan(10)
    await stores.close()
  }
}, 120_000)

it('a change is rolled back when its record cannot be written', async () => {
  const folder = folderForThisTest()
  const stores = await openStoresOf(folder)
  await stores.access.createAccount('ann')
  const { key } = await stores.access.createKey({ account: 'ann', scopes: ['chat'] })
  const { openSql } = await import('../support/test-sql.ts')
  const sql = await openSql(folder)
  await sql.run('ALTER TABLE audit_records RENAME TO gone')
  const changes = [
    () => stores.access.createAccount('bob'),
    () => stores.access.revokeKey(key.prefix),
    () => stores.access.limitKey(key.prefix, { plants: 1 }),
    () => stores.characters.put(1, { name: 'Moss', digest: 'x', source: Buffer.from('x'), about: noAbout }),
    () => importInto(stores.transfers, 1, [{ id: 1, name: 'Moss' }]),
  ]
  for (const change of changes) await expect(change()).rejects.toThrow(/audit_records|Nothing was written/)
  await sql.run('ALTER TABLE gone RENAME TO audit_records')
  await sql.close()
  expect(await stores.access.listKeys()).toMatchObject([{ revoked: null, limits: {} }])
  expect(await stores.access.listAccounts()).toHaveLength(1)
  expect(await stores.characters.list(1, '', 10)).toEqual([])
  expect((await stores.plants.list(1, {}, 10)).json).toBe('[]')
  expect(await allRecords(stores)).toHaveLength(2)
  await stores.close()
})

const noAbout = { creator: '', tags: [] }
