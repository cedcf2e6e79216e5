import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Guard, guardRequests } from '../../src/access/guard.ts'
import { createServer } from '../../src/app.ts'
import { tellOfRequests } from '../../src/http/request-log.ts'
import { loadCompilerWhenNeeded } from '../../src/http/validation.ts'
import { PageCache } from '../../src/plants/page-cache.ts'
import type { PlantStore } from '../../src/plants/plant.ts'
import { plantsPlugin } from '../../src/plants/plugin.ts'
import { openSqliteStores, type Stores } from '../../src/stores/stores.ts'
import { engines, type TestDatabase } from '../support/engines.ts'
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
    tellOfRequests(app)
    guardRequests(app, guard)
    const options = { store, guard, bodyLimit: 1000, limits: {}, pages: new PageCache() }
    await app.register(plantsPlugin, { prefix: '/plants', ...options })
    address = await app.listen({ host: '127.0.0.1', port: 0 })
  })

  afterAll(async () => {
    await app.close()
    await access.close()
    await database.close()
    folder.remove()
  })

  const get = (path: string, etag?: string | null) =>
    fetch(`${address}${path}`, {
      headers: { authorization: `Bearer ${key}`, ...(etag ? { 'if-none-match': etag } : {}) },
    })

  it('are not sent again while they are unchanged, and at once when they are not', async () => {
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
    // The page shows what it showed, and its next page begins elsewhere.
    await store.remove(account, 2)
    const changed = await Promise.all([
      get('/plants', all.headers.get('etag')),
      get('/plants?limit=2', page.headers.get('etag')),
    ])
    expect(changed.map(({ status }) => status)).toEqual([200, 200])
    expect(changed[1].headers.get('link')).toBeNull()
    expect(await changed[1].json()).toEqual([{ name: 'Fern' }, { name: 'Fern' }])
  })

  it('are refused for a bad question, whatever versions are known', async () => {
    for (const path of ['/plants?after=zzz', '/plants?tag=%01', '/plants?limit=0']) {
      expect((await get(path, '*')).status).toBe(400)
    }
  })

  it('of a long list come whole', async () => {
    await Promise.all(Array.from({ length: 1500 }, (_, index) => store.create(account, { name: `${index}` })))
    const response = await get('/plants')
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(await response.json()).toHaveLength(1502)
  })
})
