import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { conservatoryProcess } from '../support/command.ts'
import { damageSqlite, fileOfRelation, type Part } from '../support/damage.ts'
import { eventually } from '../support/eventually.ts'
import { logForThisTest } from '../support/log.ts'
import { startPostgres } from '../support/postgres.ts'
import { folderForThisTest, preset } from '../support/preset-service.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { openSqlOf } from '../support/test-sql.ts'

const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
const settings = { BOOTSTRAP_KEY: preset, DATABASE_URL: '' }

const start = (environment: Readonly<Record<string, string>> = {}) =>
  serviceForThisTest({ ...settings, ...environment })

/** Gives the first account 300 plants, more than a page of the file, and adds one by a request. */
async function addPlants({ url, dataDirectory }: TestService, databaseUrl?: string): Promise<void> {
  const sql = openSqlOf(dataDirectory, databaseUrl)
  await sql.run(`
    INSERT INTO plants (account, id, name, tag)
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 300)
    SELECT accounts.id, ids.id, ids.id || ' ${'n'.repeat(80)}', 'tag ' || ids.id FROM ids, accounts`)
  await sql.close()
  const added = await fetch(`${url}/plants`, { method: 'POST', headers, body: '{"name": "n"}' })
  expect(added.status).toBe(200)
}

async function ready(url: string): Promise<readonly [number, unknown]> {
  const reply = await fetch(`${url}/readyz`)
  return [reply.status, await reply.json()]
}

describe('damage, 5: a database that is damaged while it is served', () => {
  it.each<[Part, string, RequestInit]>([
    ['table', '/plants?limit=10', {}],
    ['table', '/plants', {}],
    ['table', '/plants', { method: 'POST', body: '{"name": "n"}' }],
    ['index', '/plants?tag=tag%201', {}],
    ['header', '/plants?limit=10', {}],
  ])(
    'SQLite, %s, %s: the request gets a 500 that reports the damage, and /readyz is corrupt until a restart',
    async (part, path, init) => {
      const log = logForThisTest()
      const service = await start({ LOG_LEVEL: 'error' })
      await addPlants(service)
      expect(await ready(service.url)).toStrictEqual([200, { status: 'ok' }])
      damageSqlite(service.dataDirectory, part)
      const met = await fetch(service.url + path, { headers, ...init })
      expect([met.status, await met.json()]).toStrictEqual([
        500,
        { error: 500, message: expect.stringMatching(/^The database is damaged, .*Tell the operator/) },
      ])
      expect(await ready(service.url)).toStrictEqual([503, { status: 'corrupt' }])
      expect(await ready(service.url)).toStrictEqual([503, { status: 'corrupt' }])
      expect((await fetch(`${service.url}/livez`)).status).toBe(200)
      await eventually(() => {
        const lines = log().split('\n')
        expect(lines.filter((line) => line.includes('database_damaged'))).toHaveLength(1)
        expect(lines.filter((line) => line.includes('restore a backup'))).toHaveLength(1)
      })
    },
  )

  it.each<Part>(['header', 'table'])(
    'SQLite, %s: the chat interface reports only damage that it reads',
    async (part) => {
      const service = await start()
      await addPlants(service)
      damageSqlite(service.dataDirectory, part)
      // With a damaged header every request fails. With a damaged table of plants this request works: it does not read plants.
      const reply = await fetch(`${service.url}/usage`, { headers })
      const expected = part === 'header' ? 500 : 200
      expect([reply.status, await reply.json()]).toStrictEqual([
        expected,
        part === 'header' ? { error: expect.objectContaining({ code: 'database_damaged' }) } : expect.anything(),
      ])
      expect((await ready(service.url))[0]).toBe(part === 'header' ? 503 : 200)
    },
  )

  it('SQLite: a header that is damaged before the service has written is seen by the probe', async () => {
    const folder = folderForThisTest()
    await (await startTestService({ ...settings, DATA_DIR: folder })).close()
    const service = await start({ DATA_DIR: folder })
    expect((await fetch(`${service.url}/plants`, { headers })).status).toBe(200)
    expect(await ready(service.url)).toStrictEqual([200, { status: 'ok' }])
    // Only bytes of the file change. A write through SQLite would make the service read the file again.
    const file = openSync(join(folder, 'conservatory.db'), 'r+')
    writeSync(file, Buffer.alloc(100, 0xa5), 0, 100, 0)
    closeSync(file)
    await eventually(async () => expect(await ready(service.url)).toStrictEqual([503, { status: 'corrupt' }]))
  })

  it('SQLite: a start over a damaged header is refused with a sentence that says to restore', async () => {
    const folder = folderForThisTest()
    await (await startTestService({ ...settings, DATA_DIR: folder })).close()
    damageSqlite(folder, 'header')
    const ended = await conservatoryProcess([], { DATA_DIR: folder, PORT: '0', DATABASE_URL: '' })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(
      /^The database .* cannot be opened: .*\. Restore a backup: conservatory restore FILE --force\.\n$/,
    )
  })

  it('PostgreSQL: a page that cannot be read gets a 500 that reports the damage, and /readyz is corrupt', async () => {
    const server = await startPostgres({ autovacuum: 'off', shared_buffers: '1MB' })
    onTestFinished(() => server.stop())
    const url = await server.createDatabase()
    const service = await start({ DATABASE_URL: url })
    await addPlants(service, url)
    expect(await ready(service.url)).toStrictEqual([200, { status: 'ok' }])
    const path = await fileOfRelation(url, 'plants')
    // The server is stopped first, because it does not read a page from disk again if the page is in its memory.
    await server.end()
    const file = openSync(join(server.folder, path), 'r+')
    writeSync(file, Buffer.alloc(8192, 0xa5), 0, 8192, 0)
    closeSync(file)
    await server.start()
    const met = await fetch(`${service.url}/plants?limit=10`, { headers })
    expect([met.status, await met.json()]).toStrictEqual([
      500,
      { error: 500, message: expect.stringMatching(/^The database is damaged/) },
    ])
    expect(await ready(service.url)).toStrictEqual([503, { status: 'corrupt' }])
  })
})
