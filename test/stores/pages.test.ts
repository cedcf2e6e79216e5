import { type IncomingMessage, get as open } from 'node:http'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Guard, guardRequests } from '../../src/access/guard.ts'
import { createServer } from '../../src/app.ts'
import { logRequests } from '../../src/http/request-log.ts'
import { loadCompilerWhenNeeded } from '../../src/http/validation.ts'
import { PageCache } from '../../src/plants/page-cache.ts'
import type { PlantStore } from '../../src/plants/plant.ts'
import { plantsPlugin } from '../../src/plants/plugin.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/service.ts'

describe.each(engines)('pages of plants in $name', (engine) => {
  const folder = temporaryFolder()
  let access: Stores
  let database: TestDatabase
  let store: PlantStore
  let app: FastifyInstance
  let address: string
  let account: number
  let key: string
  const pages = new PageCache()

  beforeAll(async () => {
    database = await engine.openDatabase()
    store = database.openPlants()
    account = await database.newAccount()
    access = openSqliteStores(join(folder.path, 'conservatory.db'))
    expect((await access.access.createAccount('ann')).id).toBe(account)
    key = (await access.access.createKey({ account: 'ann', scopes: ['plants:read'] })).secret
    app = createServer(pino({ level: 'silent' }), { requestTimeoutSeconds: 10 })
    const guard = new Guard(access.access)
    loadCompilerWhenNeeded(app)
    logRequests(app)
    guardRequests(app, guard)
    const scripts = database.openScripts()
    const options = { store, scripts, guard, workOf: workAtOnce, bodyLimit: 1000, limits: {}, pages }
    await app.register(plantsPlugin, { prefix: '/plants', ...options })
    address = await app.listen({ host: '127.0.0.1', port: 0 })
  })

  afterAll(async () => {
    await app.close()
    await access.close()
    await database.close()
    folder.remove()
  })

  const get = (path: string, etag?: string | null, secret = key) =>
    fetch(`${address}${path}`, {
      headers: { authorization: `Bearer ${secret}`, ...(etag ? { 'if-none-match': etag } : {}) },
    })

  /** A new account with a key. */
  async function newReader(): Promise<{ readonly account: number; readonly secret: string }> {
    const account = await database.newAccount()
    const { id, name } = await access.access.createAccount(`reader ${account}`)
    expect(id).toBe(account)
    const { secret } = await access.access.createKey({ account: name, scopes: ['plants:read'] })
    return { account, secret }
  }

  it('are a 304 while they are unchanged, and are sent again after a change', async () => {
    for (let count = 1; count <= 3; count++) await store.create(account, { name: 'Fern' })
    for (const path of ['/plants', '/plants?limit=2', '/plants?tag=none']) {
      const first = await get(path)
      const etag = first.headers.get('etag')
      expect([first.status, etag?.startsWith('W/"')]).toEqual([200, true])
      const again = await get(path, etag)
      expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag])
      expect((await get(path, '*')).status).toBe(304)
      expect((await get(path, 'W/"another"')).status).toBe(200)
    }
    const [all, page] = await Promise.all([get('/plants'), get('/plants?limit=2')])
    // After this change the page has the same text, but no next page.
    await store.remove(account, 2)
    const changed = await Promise.all([
      get('/plants', all.headers.get('etag')),
      get('/plants?limit=2', page.headers.get('etag')),
    ])
    expect(changed.map(({ status }) => status)).toEqual([200, 200])
    expect(changed[1].headers.get('link')).toBeNull()
    expect(await changed[1].json()).toEqual([{ name: 'Fern' }, { name: 'Fern' }])
  })

  it('are refused for a bad query, even if the request has If-None-Match', async () => {
    for (const path of ['/plants?after=zzz', '/plants?tag=%01', '/plants?limit=0', '/plants?include=name']) {
      expect((await get(path, '*')).status).toBe(400)
    }
  })

  it.each(['/plants', '/plants?limit=10001'])(
    'of %s are sent to eight readers of an account at the same time, and the ninth reader gets a 503',
    async (path) => {
      const { account: large, secret } = await newReader()
      // The list has 7 MB. The buffers of the network and of the service hold less than 5 MB of a reply.
      await database.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 7000)
      SELECT ${large}, ids.id, '${'x'.repeat(1000)}' FROM ids`)
      // These readers do not read, so their lists stay open.
      const begin = () =>
        new Promise<IncomingMessage>((resolve, reject) => {
          const headers = { authorization: `Bearer ${secret}` }
          open(`${address}${path}`, { headers, agent: false }, resolve).once('error', reject)
        })
      const readers: IncomingMessage[] = []
      for (let each = 0; each < 8; each++) readers.push(await begin())
      expect(readers.map(({ statusCode }) => statusCode)).toEqual(readers.map(() => 200))
      const refused = await begin()
      expect([refused.statusCode, refused.headers['retry-after']]).toEqual([503, '1'])
      refused.resume()
      // Readers of other accounts get their lists meanwhile.
      expect((await get('/plants')).status).toBe(200)
      expect((await store.create(large, { name: 'a' })).plant.id).toBe(7001)
      readers[0]?.destroy()
      await eventually(async () => {
        const next = await begin()
        readers.push(next)
        expect(next.statusCode).toBe(200)
      })
      for (const reader of readers) reader.destroy()
    },
  )

  it('with include=id have the ids, an ETag of their own, and a Link with include=id', async () => {
    const [{ account: owner }, { account: reader, secret }] = [await newReader(), await newReader()]
    await database.run(`
      INSERT INTO plants (account, id, name, tag)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 1500)
      SELECT ${reader}, ids.id * 2, 'own ' || (ids.id * 2), 'x' FROM ids UNION ALL
      SELECT ${owner}, ids.id, 'shared ' || ids.id, 'y' FROM ids`)
    await store.share(owner, reader)
    type Shown = { readonly id?: number; readonly name: string }
    const shown = async (response: Response): Promise<Shown[]> => JSON.parse(await response.text())
    const withIds = (plants: readonly Shown[]) =>
      plants.map((plant) => (plant.name.startsWith('own ') ? { id: Number(plant.name.slice(4)), ...plant } : plant))
    // The queries ask for whole lists, for short and long pages, for own and shared plants, and for no plants.
    const queries = ['', 'limit=2', 'limit=1200', 'limit=2200', 'limit=3000', 'tag=x', 'tag=y&limit=3', 'tag=none']
    for (const query of queries) {
      const paths = [`/plants?${query}`, `/plants?include=id&${query}`] as const
      const [plain, included] = await Promise.all(paths.map((path) => get(path, null, secret)))
      if (!plain || !included) throw new Error('a reply is missing')
      expect(included.headers.get('link')).toBe(
        plain.headers.get('link')?.replace('&after=', '&include=id&after=') ?? null,
      )
      expect(await shown(included), query).toStrictEqual(withIds(await shown(plain)))
      const tags = [plain, included].map(({ headers }) => headers.get('etag'))
      const told = await Promise.all(
        paths.flatMap((path) =>
          tags.map(async (tag) => {
            const again = await get(path, tag, secret)
            await again.text()
            return again.status
          }),
        ),
      )
      expect(told, query).toEqual([304, 200, 200, 304])
    }
    const walked: Shown[] = []
    for (let path: string | undefined = '/plants?limit=700&include=id'; path; ) {
      const page = await get(path, null, secret)
      path = /<([^>]+)>/.exec(page.headers.get('link') ?? '')?.[1]
      walked.push(...(await shown(page)))
    }
    expect(walked).toStrictEqual(withIds(await shown(await get('/plants', null, secret))))
    expect(walked.filter(({ id }) => id !== undefined)).toHaveLength(1500)
  })

  it('with ids are cached beside pages without ids: neither replaces the other', async () => {
    const { account, secret } = await newReader()
    await store.create(account, { name: 'Fern', id: 7 })
    const before = pages.uses.hits
    for (let times = 0; times < 4; times++) {
      expect(await (await get('/plants?limit=5', null, secret)).text()).toBe('[{"name":"Fern"}]')
      expect(await (await get('/plants?limit=5&include=id', null, secret)).text()).toBe('[{"id":7,"name":"Fern"}]')
    }
    // All requests but the first for each URL are hits. Over PostgreSQL there is no cache.
    expect(pages.uses.hits - before).toBe(engine.hasReplicas ? 0 : 6)
  })

  it('of a long list are complete', async () => {
    await Promise.all(Array.from({ length: 1500 }, (_, index) => store.create(account, { name: `${index}` })))
    const response = await get('/plants')
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.json()).toHaveLength(1502)
  })

  it.each(['/plants', '/plants?limit=1400'])(
    'of a long list at %s have an ETag, which is valid until something changes, and never again',
    async (path) => {
      const other = await database.newAccount()
      // The last changes restore the first state.
      const changes = [
        () => store.create(account, { name: 'one more', id: -1 }),
        () => store.remove(account, -1),
        () => store.share(other, account),
        () => store.create(other, { name: 'shared', id: 1 }),
        () => store.remove(other, 1),
        () => store.unshare(other, account),
        () => store.share(other, account).then(() => store.unshare(other, account)),
      ]
      const known: string[] = []
      for (const change of changes) {
        // The body is read after the change, so it may mix both states.
        const first = await get(path)
        const etag = first.headers.get('etag') ?? ''
        expect([first.status, etag]).toEqual([200, expect.stringMatching(/^W\/".+"$/)])
        const again = await get(path, etag)
        expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', etag])
        known.push(etag)
        await change()
        await first.text()
        const changed = await get(path, known.join(', '))
        expect(changed.status).toBe(200)
        await changed.text()
      }
      expect(new Set(known).size).toBe(known.length)
    },
  )
})
