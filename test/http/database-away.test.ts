import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type PostgresServer, startPair, startPostgres } from '../support/postgres.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'

const card = { spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Moss', first_mes: 'Hi' } }

/** The URL of a new database with a password; the server accepts any password. */
async function databaseOf(server: PostgresServer): Promise<string> {
  return (await server.createDatabase()).replace('postgres@', 'postgres:secret-word@')
}

/** Adds a plant. @returns the status, the Location and the body of the reply */
async function add(service: TestService, name: string, key: string) {
  const answer = await service.request('/plants', { json: { name }, headers: { 'idempotency-key': key } })
  const body: unknown = await answer.json()
  return { status: answer.status, location: answer.headers.get('location'), body }
}

async function readiness(service: TestService): Promise<{ status: number; text: string }> {
  const answer = await service.request('/readyz')
  return { status: answer.status, text: await answer.text() }
}

it('an unconfirmed write gets a 503 that says so, and retries with its Idempotency-Key write once', async () => {
  const { primary, standby } = await startPair()
  onTestFinished(() => Promise.all([primary.stop(), standby.stop()]).then(() => {}))
  const service = await serviceForThisTest({ DATABASE_URL: await databaseOf(primary) })
  await standby.kill()
  const keys = Array.from({ length: 5 }, (_, number) => `key ${number}`)
  const [unsure, uploaded] = await Promise.all([
    Promise.all(keys.map((key) => add(service, key, key))),
    service.request('/characters', { json: card }),
  ])
  expect(unsure.map(({ status }) => status)).toStrictEqual(keys.map(() => 503))
  const said = { error: 503, message: expect.stringContaining('send the request again with the same key') }
  // Writes that came during the first commit waited for the lock of the account, so they wrote nothing.
  const saidOfOthers = { error: 503, message: expect.stringContaining('Nothing was written') }
  expect(unsure.map(({ body }) => body)).toContainEqual(said)
  for (const { body } of unsure) expect([said, saidOfOthers]).toContainEqual(body)
  expect(uploaded.status).toBe(503)
  expect(uploaded.headers.get('retry-after')).toBe('1')
  expect(await uploaded.json()).toMatchObject({ error: { code: 'write_unconfirmed' } })
  // A write that only the primary has is not acknowledged.
  expect((await add(service, 'key 0', 'key 0')).status).toBe(503)

  await standby.start()
  const sure = await Promise.all(keys.map((key) => add(service, key, key)))
  expect(sure.map(({ status }) => status)).toStrictEqual(keys.map(() => 200))
  expect(await Promise.all(keys.map((key) => add(service, key, key)))).toStrictEqual(sure)
  const list: readonly { name: string }[] = JSON.parse(await (await service.request('/plants')).text())
  expect(list.map(({ name }) => name).toSorted()).toStrictEqual(keys)
}, 60_000)

it('(j) a request waits for the database for five seconds in total, however many queries it needs', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const url = await databaseOf(server)
  const service = await serviceForThisTest({ DATABASE_URL: url })
  const sql = postgres(url, { max: 3 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  const released = Promise.withResolvers<void>()
  const hold = async (table: string, until: Promise<unknown>) => {
    const locked = Promise.withResolvers<void>()
    const over = sql.begin(async (held) => {
      await held.unsafe(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`)
      locked.resolve()
      await until
    })
    await Promise.race([locked.promise, over])
    return { over }
  }
  // The query for the key takes three seconds, and the query for the plants would take five more.
  const keyHeld = Promise.withResolvers<void>()
  const holds = [await hold('keys', keyHeld.promise), await hold('plants', released.promise)]
  const began = performance.now()
  const answer = service.request('/plants/1')
  await eventually(async () => {
    const waiting = await sql`
      SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query_start < now() - INTERVAL '3 seconds'`
    expect(waiting.length).toBeGreaterThan(0)
  })
  keyHeld.resolve()
  expect((await answer).status).toBe(503)
  expect(performance.now() - began).toBeLessThan(7000)
  released.resolve()
  await Promise.all(holds.map(({ over }) => over))
}, 60_000)

it('while the database is away or lacks a column, /readyz says so without the password, and requests get a 503', async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const url = await databaseOf(server)
  const service = await serviceForThisTest({ DATABASE_URL: url })
  expect((await readiness(service)).status).toBe(200)
  await server.kill()
  const chat = { model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] }
  const answers = await Promise.all([
    service.request('/readyz'),
    service.request('/plants'),
    service.request('/plants', { json: { name: 'Fern' } }),
    service.request('/characters'),
    service.request('/chat/completions', { json: chat }),
  ])
  const bodies = await Promise.all(answers.map((answer) => answer.text()))
  expect(answers.map(({ status }) => status)).toStrictEqual([503, 503, 503, 503, 503])
  expect(bodies[0]).toContain('The database does not answer.')
  expect(bodies[3]).toContain('"code":"database_unavailable"')
  const shown = JSON.stringify([bodies, answers.map(({ headers }) => [...headers])])
  expect(shown).not.toMatch(/secret-word|postgres:/)
  expect((await service.request('/livez')).status).toBe(200)

  await server.start()
  expect((await readiness(service)).status).toBe(200)
  expect((await add(service, 'Fern', 'once')).status).toBe(200)
  const sql = postgres(url, { max: 1 })
  await sql`ALTER TABLE plants RENAME tag TO label`
  expect(await readiness(service)).toMatchObject({ status: 503, text: expect.stringContaining('plants.tag missing') })
  await sql`ALTER TABLE plants RENAME label TO tag`
  expect((await readiness(service)).status).toBe(200)
  await sql.end()
}, 60_000)
