import { get } from 'node:http'
import { describe, expect, it } from 'vitest'
import { spawnService } from '../support/process.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

describe('a long list', () => {
  it('lets others be answered meanwhile, however quickly its reader takes it', async () => {
    // A process of its own: in this one, reader and service would take turns whatever the service did.
    const service = await spawnService(process.execPath, ['src/main.ts'])
    const sql = await sqlForThisTest(service.dataDirectory)
    // Far more than the buffers of a connection hold, so that the service is still at it when the other request comes.
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
})
