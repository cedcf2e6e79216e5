import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Scope } from '../../src/access/access.ts'
import type { Plant } from '../../src/plants/schemas.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { eachPage, namesOf } from '../support/plant-pages.ts'
import { type RequestOptions, startTestService, type TestService } from '../support/service.ts'
import { isOverPostgres, onceKnown, openStoresOf } from '../support/test-database.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'

let service: TestService
/** The stores of a command beside the service. */
let stores: Stores
let sql: TestSql

beforeAll(async () => {
  service = await startTestService()
  stores = await openStoresOf(service.dataDirectory)
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql.close()
  await stores.close()
  await service.close()
})

interface Person {
  readonly id: number
  readonly name: string
  send(path: string, options?: RequestOptions): Promise<Response>
  /** The names in `GET /plants`. */
  sees(query?: string): Promise<readonly string[]>
  /** Adds plants with these names and tags and the ids 1, 2, and so on. */
  plant(...plants: readonly (readonly [name: string, tag?: string])[]): Promise<void>
}

/** The cursors of all pages from this path on. */
async function cursorsIn(send: Person['send'], path: string): Promise<readonly string[]> {
  const next = /<([^>]+)>/.exec((await send(path)).headers.get('link') ?? '')?.[1]
  if (next === undefined) return []
  return [new URL(next, service.url).searchParams.get('after') ?? '', ...(await cursorsIn(send, next))]
}

let people = 0

async function newPerson(scopes: readonly Scope[] = ['plants:read', 'plants:write']): Promise<Person> {
  const { id, name } = await stores.access.createAccount(`person ${++people}`)
  const { secret } = await stores.access.createKey({ account: name, scopes })
  const send = (path: string, options: RequestOptions = {}) =>
    service.request(path, { ...options, headers: { authorization: `Bearer ${secret}`, ...options.headers } })
  return {
    id,
    name,
    send,
    async sees(query = '') {
      const plants: readonly Plant[] = JSON.parse(await (await send(`/plants${query}`)).text())
      return plants.map((plant) => plant.name)
    },
    plant(...plants) {
      const rows = plants.map(([name, tag], index) => ({ account: id, id: index + 1, name, tag: tag ?? null }))
      return sql.insert('plants', rows)
    },
  }
}

/** Makes three accounts one after the other, because shares are listed in the order of the accounts. */
async function newPeople(): Promise<readonly [Person, Person, Person]> {
  return [await newPerson(), await newPerson(), await newPerson()]
}

const run = (...args: readonly string[]) => conservatory(args, { DATA_DIR: service.dataDirectory })

/** The names on each page, following the Link headers. */
async function readPages(person: Person, first: string): Promise<readonly (readonly string[])[]> {
  const pages: string[][] = []
  for (let path: string | undefined = first; path !== undefined; ) {
    const response = await person.send(path)
    const plants: readonly Plant[] = JSON.parse(await response.text())
    pages.push(plants.map(({ name }) => name))
    path = /^<(\/plants\?[^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
  }
  return pages
}

describe('plants that an account shares', () => {
  it('come after the own plants, by account and id, each plant once, also page by page', async () => {
    const [ann, bob, cat] = await newPeople()
    await ann.plant(['a1', 'x'], ['a2'], ['a3', 'y'])
    await bob.plant(['b1', 'x'], ['b2'])
    await cat.plant(['c1'], ['c2', 'x'])
    await stores.plants.share(ann.id, bob.id)
    await stores.plants.share(ann.id, bob.id, 'x')
    await stores.plants.share(cat.id, bob.id, 'x')
    const all = ['b1', 'b2', 'a1', 'a2', 'a3', 'c2']
    expect(await bob.sees()).toEqual(all)
    expect(await bob.sees('?tag=x')).toEqual(['b1', 'a1', 'c2'])
    expect(await readPages(bob, '/plants?limit=1')).toEqual(all.map((name) => [name]))
    expect(await readPages(bob, '/plants?limit=4')).toEqual([all.slice(0, 4), all.slice(4)])
    expect(await readPages(bob, '/plants?limit=2&tag=x')).toEqual([['b1', 'a1'], ['c2']])
    expect(await ann.sees()).toEqual(['a1', 'a2', 'a3'])
    expect(await cat.sees()).toEqual(['c1', 'c2'])
  })

  it('by a tag are only the plants that have the tag now', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['rose', 'red'], ['bare'], ['poppy', 'red'], ['lily', 'white'])
    await stores.plants.share(ann.id, bob.id, 'red')
    expect(await bob.sees()).toEqual(['rose', 'poppy'])
    expect(await bob.sees('?tag=white')).toEqual([])
    await ann.send('/plants', { json: { name: 'tulip', tag: 'red' } })
    await ann.send('/plants/1', { method: 'DELETE' })
    expect(await bob.sees()).toEqual(['poppy', 'tulip'])
  })

  it('are only in the list: they cannot be read by id, changed or removed', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['a1'])
    await stores.plants.share(ann.id, bob.id)
    await expectError(await bob.send('/plants/1'), 'plants', 404)
    await expectError(await bob.send('/plants/1', { method: 'DELETE' }), 'plants', 404)
    // The id is free in the caller's own account.
    const added = await bob.send('/plants', { json: { name: 'b1', id: 1 } })
    expect([added.status, added.headers.get('location')]).toEqual([200, '/plants/1'])
    expect(await bob.sees()).toEqual(['b1', 'a1'])
    expect((await bob.send('/plants/1', { method: 'DELETE' })).status).toBe(204)
    expect(await bob.sees()).toEqual(['a1'])
    expect(await ann.sees()).toEqual(['a1'])
  })

  it('disappear immediately when the share is revoked, even between two pages, and no ETag is stale', async () => {
    const [ann, bob, cat] = await newPeople()
    await ann.plant(['a1'], ['a2'], ['a3'])
    await cat.plant(['c1'])
    await stores.plants.share(ann.id, bob.id)
    await stores.plants.share(cat.id, bob.id)
    const first = await bob.send('/plants?limit=1')
    const next = /<([^>]+)>/.exec(first.headers.get('link') ?? '')?.[1] ?? ''
    const known = { 'if-none-match': first.headers.get('etag') ?? '' }
    expect((await bob.send('/plants?limit=1', { headers: known })).status).toBe(304)
    await stores.plants.unshare(ann.id, bob.id)
    const again = await bob.send('/plants?limit=1', { headers: known })
    expect([again.status, await again.json()]).toEqual([200, [{ name: 'c1' }]])
    expect(await (await bob.send(next)).json()).toEqual([{ name: 'c1' }])
  })

  it('change the ETag of the accounts that see them when their owner writes, and of no other account', async () => {
    const [ann, bob, cat] = await newPeople()
    await ann.plant(['a1'])
    await stores.plants.share(ann.id, bob.id)
    const before = await Promise.all([bob, cat].map(async (who) => (await who.send('/plants')).headers.get('etag')))
    await ann.send('/plants', { json: { name: 'a2' } })
    const after = await Promise.all([bob, cat].map(async (who) => (await who.send('/plants')).headers.get('etag')))
    expect([after[0] === before[0], after[1] === before[1]]).toEqual([false, true])
  })

  it('by tag change neither the page nor its ETag when their owner writes plants that are not shared', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['a1', 'shared'], ['a2', 'shared'], ['a3', 'private'])
    await stores.plants.share(ann.id, bob.id, 'shared')
    for (const path of ['/plants', '/plants?limit=1', '/plants?include=id', '/plants?tag=shared']) {
      const before = await bob.send(path)
      const known = before.headers.get('etag') ?? ''
      await ann.send('/plants', { json: { name: 'not shared' } })
      await ann.send('/plants', { json: { name: 'not shared', tag: 'private' } })
      const same = await bob.send(path)
      expect([same.headers.get('etag'), same.headers.get('link')]).toEqual([known, before.headers.get('link')])
      expect((await bob.send(path, { headers: { 'if-none-match': known } })).status).toBe(304)
      await ann.send('/plants/1', { method: 'DELETE' })
      const changed = await bob.send(path, { headers: { 'if-none-match': known } })
      expect([changed.status, changed.headers.get('etag') === known]).toEqual([200, false])
      await ann.send('/plants', { json: { name: 'a1', tag: 'shared', id: 1 } })
    }
  })

  it('by tag give a streamed list no ETag, because no part of the list was read when its headers are sent', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(...Array.from({ length: 1100 }, (_, index) => [`a${index}`, 'shared'] as const))
    await stores.plants.share(ann.id, bob.id, 'shared')
    for (const path of ['/plants', '/plants?limit=1050']) {
      const reply = await bob.send(path)
      const plants: readonly Plant[] = JSON.parse(await reply.text())
      expect([reply.status, plants.length > 1000, reply.headers.get('etag')]).toEqual([200, true, null])
    }
    await stores.plants.share(ann.id, bob.id)
    expect((await bob.send('/plants')).headers.get('etag')).toMatch(/^W\//)
  })

  it('give no cursor from which the account or the id of their owner can be read', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['a1'], ['a2'], ['a3'])
    await stores.plants.share(ann.id, bob.id)
    const own = await cursorsIn(ann.send, '/plants?limit=1')
    const shared = await cursorsIn(bob.send, '/plants?limit=1')
    expect(shared).toEqual(own)
    expect(new Set(shared.map((cursor) => cursor.length))).toEqual(new Set([43]))
    for (const cursor of shared) {
      const bytes = Buffer.from(cursor, 'base64url')
      expect(bytes.toString('latin1')).not.toMatch(/^\d+:\d+$/)
      // Four zero bytes in a row are in each number below 2^32 that is not encrypted.
      expect(bytes.includes(Buffer.alloc(4))).toBe(false)
    }
  })

  it('by many tags are complete and in order in a long list', async () => {
    const [ann, bob, cat] = await newPeople()
    const tags = Array.from({ length: 7 }, (_, index) => `tag ${index}`)
    const names = (whose: string, count: number) => Array.from({ length: count }, (_, index) => `${whose}${index}`)
    await bob.plant(...names('b', 10).map((name) => [name] as const))
    // Long runs of one tag, then a mixture of all tags. Every ninth plant has a tag that is not shared.
    await ann.plant(
      ...names('a', 3000).map((name, index) => {
        const tag = index % 9 === 0 ? 'private' : tags[index < 1500 ? Math.floor(index / 600) : index % 7]
        return [name, tag ?? ''] as const
      }),
    )
    await cat.plant(...names('c', 1500).map((name) => [name] as const))
    for (const tag of tags) await stores.plants.share(ann.id, bob.id, tag)
    await stores.plants.share(cat.id, bob.id)
    const expected = [...names('b', 10), ...names('a', 3000).filter((_, index) => index % 9 !== 0), ...names('c', 1500)]
    expect(await bob.sees()).toEqual(expected)
    expect((await readPages(bob, '/plants?limit=1900')).flat()).toEqual(expected)
    const shown: string[] = []
    for await (const page of stores.plants.listLong(bob.id, {}, eachPage)) {
      if (shown.length === 0) {
        await stores.plants.unshare(ann.id, bob.id)
        await cat.send('/plants', { json: { name: 'late' } })
      }
      shown.push(...namesOf(page))
    }
    const after = [...expected.slice(0, 500), ...names('c', 1500), 'late']
    expect(shown).toEqual(isOverPostgres ? after : expected)
    expect(await bob.sees()).toEqual([...names('b', 10), ...names('c', 1500), 'late'])
  })

  it('stay visible while their owner is suspended', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['a1'])
    await stores.plants.share(ann.id, bob.id)
    await sql.run('UPDATE accounts SET suspended = 1 WHERE id = ?', ann.id)
    expect(await bob.sees()).toEqual(['a1'])
  })
})

describe('the commands', () => {
  it('grant, list and revoke shares beside the running service', async () => {
    const [ann, bob] = await newPeople()
    await ann.plant(['a1', 'x'], ['a2'])
    const both = ['--from', ann.name, '--to', bob.name]
    const byTag = await run('plants', 'share', ...both, '--tag', ' x ')
    expect(byTag).toMatchObject({ code: 0, stdout: '' })
    expect(byTag.stderr).toBe(`"${bob.name}" sees the plants of "${ann.name}" with the tag "x" from now on.\n`)
    expect(await bob.sees()).toEqual(['a1'])
    expect((await run('plants', 'share', ...both)).stderr).toMatch(/ from now on\.\n$/)
    expect(await bob.sees()).toEqual(['a1', 'a2'])
    expect(await run('plants', 'share', ...both)).toMatchObject({
      code: 0,
      stderr: `"${bob.name}" sees the plants of "${ann.name}" already.\n`,
    })
    const listed: readonly { from: string }[] = JSON.parse((await run('plants', 'shares', '--json')).stdout)
    const created = expect.any(Number)
    expect(listed.filter(({ from }) => from === ann.name)).toStrictEqual([
      { from: ann.name, to: bob.name, tag: null, created },
      { from: ann.name, to: bob.name, tag: 'x', created },
    ])
    expect((await run('plants', 'unshare', ...both, '--tag', 'x')).stderr).toBe(
      `Revoked: the plants of "${ann.name}" with the tag "x". "${bob.name}" now sees the plants of "${ann.name}".\n`,
    )
    const again = await run('plants', 'unshare', ...both, '--tag', 'x')
    expect(again).toMatchObject({ code: 1, stdout: '' })
    expect(again.stderr).toMatch(/shares nothing with "[^"]+" by the tag "x"\. See: conservatory plants shares\n$/)
    expect(await bob.sees()).toEqual(['a1', 'a2'])
  })

  it('revoke all shares when unshare has no tag', async () => {
    const [ann, bob, cat] = await newPeople()
    await ann.plant(['a1', 'x'], ['a2', 'y'])
    await stores.plants.share(ann.id, bob.id, 'x')
    await stores.plants.share(ann.id, bob.id, 'y')
    await stores.plants.share(ann.id, cat.id)
    const both = ['--from', ann.name, '--to', bob.name]
    expect((await run('plants', 'unshare', ...both)).stderr).toMatch(/ now sees none of them\.\n$/)
    expect(await bob.sees()).toEqual([])
    expect(await cat.sees()).toEqual(['a1', 'a2'])
    expect(await run('plants', 'unshare', ...both)).toMatchObject({ code: 1, stdout: '' })
  })

  it('refuse impossible shares with one sentence', async () => {
    const [ann, bob] = await newPeople()
    const refusals = await Promise.all([
      run('plants', 'share', '--from', ann.name, '--to', ann.name),
      run('plants', 'share', '--from', ann.name, '--to', 'nobody'),
      run('plants', 'unshare', '--from', 'nobody', '--to', bob.name),
      run('plants', 'share', '--from', ann.name, '--to', bob.name, '--tag', ' '),
      run('plants', 'share', '--from', ann.name, '--to', bob.name, '--tag', 't'.repeat(256)),
    ])
    const unknown = 'There is no account "nobody". See: conservatory accounts list\n'
    expect(refusals.map(({ stderr }) => stderr)).toEqual([
      'An account sees its own plants already.\n',
      unknown,
      unknown,
      'The field "tag" is blank; send 1 to 255 characters.\n',
      'The field "tag" is longer than 255 characters; shorten it.\n',
    ])
    // Exit code 2 is a usage error: the request is wrong for every account.
    expect(refusals.map(({ code }) => code)).toEqual([2, 1, 1, 2, 2])
    expect(refusals.map(({ stdout }) => stdout).join('')).toBe('')
    expect((await run('plants', 'share', '--from', ann.name)).code).toBe(2)
    expect(await bob.sees()).toEqual([])
  })
})

describe('the limit "plants"', () => {
  const add = (person: Person, name: string, key?: string) =>
    person.send('/plants', { json: { name }, headers: key === undefined ? {} : { 'idempotency-key': key } })

  async function limitAccount({ id }: Person, limits: object): Promise<void> {
    await sql.run('UPDATE accounts SET limits = ? WHERE id = ?', JSON.stringify(limits), id)
  }

  it('of an account refuses plants over the limit until a plant is deleted; a repeated request does not count', async () => {
    const [ann, bob] = await newPeople()
    await limitAccount(ann, { plants: 2 })
    // Plants that other accounts share are not counted.
    await bob.plant(['b1'], ['b2'])
    await stores.plants.share(bob.id, ann.id)
    expect((await add(ann, 'a1', 'first')).status).toBe(200)
    expect((await add(ann, 'a2')).status).toBe(200)
    const refused = await add(ann, 'a3')
    expect(refused.headers.get('retry-after')).toBeNull()
    const { message } = await expectError(refused, 'plants', 429)
    expect(message).toContain('"plants"')
    expect((await add(ann, 'a1', 'first')).headers.get('idempotency-replayed')).toBe('true')
    expect((await ann.send('/plants/2', { method: 'DELETE' })).status).toBe(204)
    expect((await ann.send('/plants/2', { method: 'DELETE' })).status).toBe(404)
    expect((await add(ann, 'a4')).status).toBe(200)
    expect((await add(ann, 'a5')).status).toBe(429)
    expect(await ann.sees()).toEqual(['a1', 'a4', 'b1', 'b2'])
    await limitAccount(ann, { plants: 1 })
    expect((await add(ann, 'a6')).status).toBe(429)
    await limitAccount(ann, {})
    await onceKnown(async () => expect((await add(ann, 'a7')).status).toBe(200))
  })

  it('is never exceeded by concurrent requests', async () => {
    const ann = await newPerson()
    await limitAccount(ann, { plants: 10 })
    await ann.plant(['old 1'], ['old 2'])
    const statuses = await Promise.all(
      Array.from({ length: 30 }, async (_, index) => (await add(ann, `${index}`)).status),
    )
    expect(statuses.filter((status) => status === 200)).toHaveLength(8)
    expect(statuses.filter((status) => status === 429)).toHaveLength(22)
    await sql.run('DELETE FROM plants WHERE account = ? AND id <= 5', ann.id)
    const more = await Promise.all(Array.from({ length: 10 }, async (_, index) => (await add(ann, `${index}`)).status))
    expect(more.filter((status) => status === 200)).toHaveLength(5)
    expect(await ann.sees()).toHaveLength(10)
  })

  it('of a key applies besides the limit of its account, and counts all plants of the account', async () => {
    const ann = await newPerson()
    await limitAccount(ann, { plants: 3 })
    await ann.plant(['a1'], ['a2'])
    const withKey = async (plants: number) => {
      const request = { account: ann.name, scopes: ['plants:write'], limits: { plants } } as const
      const { secret } = await stores.access.createKey(request)
      return (name: string) =>
        service.request('/plants', { json: { name }, headers: { authorization: `Bearer ${secret}` } })
    }
    const [none, two, four] = await Promise.all([withKey(0), withKey(2), withKey(4)])
    expect([(await none('a3')).status, (await two('a3')).status, (await four('a3')).status]).toEqual([429, 429, 200])
    expect((await add(ann, 'a4')).status).toBe(429)
    expect((await four('a4')).status).toBe(429)
    await limitAccount(ann, { plants: 5 })
    await onceKnown(async () => expect((await four('a4')).status).toBe(200))
    expect((await four('a5')).status).toBe(429)
  })

  it('of the settings applies to accounts without a limit of their own', async () => {
    const limited = await startTestService({ LIMITS: 'plants=1' })
    onTestFinished(() => limited.close())
    const post = () => limited.request('/plants', { json: { name: 'a' } })
    expect((await post()).status).toBe(200)
    await expectError(await post(), 'plants', 429)
  })

  it('does not count a write that was rolled back', async () => {
    const ann = await newPerson()
    const writes = await openStoresOf(service.dataDirectory)
    const add = (id: number) => writes.plants.create(ann.id, { name: 'a', id }, undefined, 2)
    // With this change of the schema, a plant with the id 66 makes the whole transaction fail.
    const [fail, mend] = isOverPostgres
      ? ['ALTER TABLE plants ADD CONSTRAINT fail CHECK (id <> 66) NOT VALID', 'ALTER TABLE plants DROP CONSTRAINT fail']
      : [
          "CREATE TRIGGER fail BEFORE INSERT ON plants WHEN NEW.id = 66 BEGIN SELECT raise(ROLLBACK, 'no'); END",
          'DROP TRIGGER fail',
        ]
    await add(1)
    await sql.run(fail)
    try {
      const failing = [add(2), writes.plants.create(ann.id, { name: 'a', id: 66 })]
      expect((await Promise.allSettled(failing)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      await add(3)
      await expect(add(4)).rejects.toMatchObject({ status: 429 })
    } finally {
      await sql.run(mend)
      await writes.close()
    }
  })
})
