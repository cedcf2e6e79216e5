import { IncomingMessage } from 'node:http'
import { queryObjects } from 'node:v8'
import { expect, it } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { serviceForThisTest } from '../../support/service.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'

it('a connection to the database does not keep the request during which it was opened', async () => {
  const service = await serviceForThisTest({ DATABASE_URL: await newMigratedDatabase() })
  const add = async () => {
    const reply = await service.request('/plants', { json: { name: 'a' }, headers: { connection: 'close' } })
    expect(await reply.json()).toMatchObject({ name: 'a' })
  }
  await Promise.all(Array.from({ length: 5 }, add))
  // All IncomingMessages of this process are requests to the service.
  await eventually(async () => expect(queryObjects(IncomingMessage, { format: 'count' })).toBe(0))
})
