import { expect, it, onTestFinished } from 'vitest'
import { postgresMigrations } from '../../../src/storage/migrations.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { migratePostgres } from '../../../src/storage/postgres/migrate.ts'
import { conservatory } from '../../support/command.ts'
import { serviceForThisTest, type TestService, temporaryFolder } from '../../support/service.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

const newest = postgresMigrations.at(-1)?.name ?? ''
const wider = ['accounts', 'keys', 'plants', 'grants', 'characters', 'character_versions', 'requests', 'spend']
/** A possible migration of the next version: a new column for each table of `wider`, and a new table. */
const next = {
  name: '0900-next',
  servesFrom: newest,
  sql: `${wider.map((table) => `ALTER TABLE ${table} ADD COLUMN later TEXT;`).join('\n')} CREATE TABLE later (id BIGINT);`,
}
const afterNext = { name: '0901-after-next', servesFrom: next.name, sql: 'CREATE TABLE latest (id BIGINT);' }

/** Migrates a database as a later version would. */
async function updateTo(url: string, ...later: Parameters<typeof migratePostgres>[1] & object): Promise<void> {
  const database = await connectPostgres(url)
  await migratePostgres(database, [...postgresMigrations, ...later])
  await database.close()
}

it('a replica goes on after a newer replica has updated the schema, and another replica of the old version starts', async () => {
  const url = await newPostgresDatabase()
  const one = await serviceForThisTest({ DATABASE_URL: url })
  expect(await useAll(one, 'before')).toStrictEqual([])
  await updateTo(url, next)
  expect(await useAll(one, 'after')).toStrictEqual([])
  const two = await serviceForThisTest({ DATABASE_URL: url, BOOTSTRAP_KEY: one.key })
  expect(await useAll(two, 'another', one.key)).toStrictEqual([])
})

it.each([
  ['two versions newer', [next, afterNext], '0901-after-next'],
  ['without servesFrom', [{ name: '0900-other', sql: 'CREATE TABLE other (id BIGINT);' }], '0900-other'],
])('a replica does not start with a schema %s', async (_, later, name) => {
  const url = await newPostgresDatabase()
  await updateTo(url, ...later)
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const settings = { DATABASE_URL: url, PORT: '0', LOG_LEVEL: 'fatal', DATA_DIR: folder.path }
  const { code, stdout, stderr } = await conservatory(['serve'], settings)
  expect([code, stdout]).toStrictEqual([1, ''])
  expect(stderr).toBe(
    `The database at ${new URL(url).host} was written by a newer version of Conservatory (it has ${name}). Start that version.\n`,
  )
})

/** Sends requests to the routes of plants, keys, characters, chats and usage. @returns the failed requests and their replies */
async function useAll(service: TestService, name: string, key = service.key): Promise<readonly string[]> {
  const headers = { authorization: `Bearer ${key}` }
  const card = { spec: 'chara_card_v2', spec_version: '2.0', data: { name: `Moss ${name}`, first_mes: 'Hi' } }
  const chat = { model: 'understudy', character: `Moss ${name}`, messages: [{ role: 'user', content: 'Hello' }] }
  const calls: readonly (readonly [string, unknown?])[] = [
    ['/readyz'],
    ['/plants', { name }],
    ['/plants'],
    ['/keys', { name, scopes: ['plants:read'] }],
    ['/keys'],
    ['/characters', card],
    ['/characters'],
    [`/characters/Moss%20${name}`],
    ['/chat/completions', chat],
    ['/usage'],
  ]
  const faults: string[] = []
  for (const [path, json] of [...calls, ...calls.filter(([, json]) => json === undefined)]) {
    const answer = await service.request(path, json === undefined ? { headers } : { json, headers })
    if (answer.status >= 300) faults.push(`${path} ${answer.status} ${await answer.text()}`)
    else await answer.arrayBuffer()
  }
  return faults
}
