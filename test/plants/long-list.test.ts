import { get, type IncomingMessage } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OpenLists } from '../../src/plants/long-replies.ts'
import { eventually } from '../support/eventually.ts'
import { spawnService } from '../support/process.ts'
import { startTestService } from '../support/service.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

describe('a long list', () => {
  it('does not delay other requests, even if its reader is fast', async () => {
    // The service has a process of its own: in one process, the reader and the service would alternate in any case.
    const service = await spawnService(process.execPath, ['src/main.ts'])
    const sql = await sqlForThisTest(service.dataDirectory)
    // The list is far larger than the buffers of a connection, so it is not complete when the other request comes.
    await sql.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 200000)
      SELECT accounts.id, ids.id, '${'x'.repeat(200)}' FROM ids, accounts`)

    const answered: string[] = []
    const ask = (path: string, whenItBegins: () => void) =>
      new Promise<void>((resolve, reject) => {
        const request = get(service.url + path, { headers: { authorization: `Bearer ${service.key}` } }, (reply) => {
          reply.once('data', whenItBegins)
          reply.once('end', () => {
            answered.push(path)
            resolve()
          })
        })
        request.once('error', reject)
      })
    let other: Promise<void> | undefined
    await ask('/plants', () => {
      other = ask('/plants?limit=1', () => {})
    })
    await other
    expect(answered).toEqual(['/plants?limit=1', '/plants'])
  }, 30_000)

  const guarded = 'at %s is a 503 for an account with eight open lists, until a reader leaves'
  it.for(['/plants', '/plants?limit=3000001'])(guarded, { timeout: 30_000 }, async (path) => {
    const service = await startTestService()
    onTestFinished(() => service.close())
    const others = await service.makeKey('others')
    const sql = await sqlForThisTest(service.dataDirectory)
    await sql.run(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 60000)
      SELECT accounts.id, ids.id, '${'x'.repeat(200)}' FROM ids, accounts`)
    // The readers do not read, so their lists stay open.
    const open = (key = service.key) =>
      new Promise<IncomingMessage>((resolve, reject) => {
        get(service.url + path, { headers: { authorization: `Bearer ${key}` } }, resolve).once('error', reject)
      })
    const most = 8
    const readers: IncomingMessage[] = []
    for (let each = 0; each < most; each++) readers.push(await open())
    expect(readers.map(({ statusCode }) => statusCode)).toEqual(readers.map(() => 200))
    const refused = await open()
    expect([refused.statusCode, refused.headers['retry-after']]).toEqual([503, '1'])
    refused.resume()
    const other = await open(others)
    expect(other.statusCode).toBe(200)
    readers.push(other)
    readers[0]?.destroy()
    await eventually(async () => {
      const next = await open()
      readers.push(next)
      expect(next.statusCode).toBe(200)
    })
    for (const reader of readers) reader.destroy()
  })
})

it('(q) at most 32 long lists are open, and at most eight of one account', () => {
  const lists = new OpenLists()
  const leave = lists.enter(1)
  for (let each = 1; each < 8; each++) lists.enter(1)
  expect(() => lists.enter(1)).toThrow(expect.objectContaining({ status: 503, code: 'overloaded' }))
  for (const account of [2, 3, 4]) for (let each = 0; each < 8; each++) lists.enter(account)
  expect(() => lists.enter(5)).toThrow('Ask for pages with a limit')
  leave()
  lists.enter(5)
})
