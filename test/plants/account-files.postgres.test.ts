import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { expect, it, onTestFinished } from 'vitest'
import type { ExportSink } from '../../src/plants/transfers.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { bare, importInto, plantsIn } from '../support/account-files.ts'
import { conservatory } from '../support/command.ts'
import { plantsOf } from '../support/plant-pages.ts'
import { temporaryFolder } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

const plants = Array.from({ length: 3500 }, (_, index) => ({ id: index - 1000, name: `plant ${index}` }))
const begin = -(2 ** 53 - 1)

/** A database with the account ann, which has many plants, its stores, and a function that runs a command over it. */
async function startHere() {
  const url = await newMigratedDatabase()
  const stores = await openPostgresStores(url)
  const folder = temporaryFolder()
  const sql = postgres(url, { max: 1 })
  onTestFinished(async () => {
    await sql.end()
    await stores.close()
    folder.remove()
  })
  const { id } = await stores.access.createAccount('ann')
  await importInto(stores.transfers, id, plants)
  const run = (...args: string[]) => conservatory(args, { DATABASE_URL: url, DATA_DIR: folder.path })
  return { url, stores, account: id, sql, run, backups: join(folder.path, 'backups') }
}

/** The ids, names and tags of plants, from their lines of an export. */
function plantsOfLines(lines: string) {
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => bare(JSON.parse(line)))
}

it('accounts export reads an account in batches from one snapshot', async () => {
  const { stores, account, sql, run } = await startHere()
  const batches: string[] = []
  let counted = 0
  let deleted: Promise<unknown> | undefined
  const sink: ExportSink = {
    begin(count) {
      counted = count
    },
    add(lines) {
      batches.push(lines)
      deleted ??= sql`DELETE FROM plants WHERE id > 0`.execute()
    },
    end() {},
  }
  await stores.transfers.exportPlants(account, sink)
  await deleted
  expect(counted).toBe(plants.length)
  expect(plantsOfLines(batches.join(''))).toStrictEqual(plants)
  expect(batches.length).toBeGreaterThan(1)
  const { code, stdout } = await run('accounts', 'export', 'ann')
  expect(code).toBe(0)
  expect((await plantsIn(stdout)).map(bare)).toStrictEqual(plants.filter(({ id }) => id <= 0))
})

it('accounts delete may take longer than a request may, and exports the plants that the account had at the end', async () => {
  const { stores, sql, run, backups } = await startHere()
  // This transaction locks the account for longer than a request waits for the database.
  const locked = Promise.withResolvers<void>()
  const writing = sql.begin(async (transaction) => {
    await transaction`SELECT id FROM accounts WHERE name = 'ann' FOR NO KEY UPDATE`
    locked.resolve()
    await transaction`SELECT pg_sleep(6)`
    await transaction`INSERT INTO plants (account, id, name) SELECT id, ${begin}, 'the last' FROM accounts WHERE name = 'ann'`
  })
  await locked.promise
  const ended = await run('accounts', 'delete', 'ann')
  await writing
  expect(ended).toMatchObject({ code: 0, stdout: '' })
  const [file = ''] = readdirSync(backups)
  expect(ended.stderr).toBe(`The account "ann" is deleted. Its plants are in ${join(backups, file)}.\n`)
  const kept = await plantsIn(readFileSync(join(backups, file), 'utf8'))
  expect(kept.map(bare)).toStrictEqual([{ id: begin, name: 'the last' }, ...plants])
  expect(await stores.access.listAccounts()).toStrictEqual([])
})

it('accounts delete is refused for the account with the last admin key: nothing is deleted, and no file is left', async () => {
  const { stores, run, backups } = await startHere()
  await stores.access.createKey({ account: 'ann', scopes: ['admin'] })
  const ended = await run('accounts', 'delete', 'ann')
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringMatching(/^No working key with the scope admin/) })
  expect(readdirSync(backups)).toStrictEqual([])
  expect(plantsOf(await stores.plants.list(1, {}, 10_000))).toHaveLength(plants.length)
})

it('an import counts only connections of other processes as a running service, so an import alone makes no pauses', async () => {
  const { url, stores, account, sql } = await startHere()
  const plant = { name: 'written on one connection, and read on another' }
  await stores.plants.create(account, plant)
  await stores.plants.count(account)
  const open =
    await sql`SELECT 1 FROM pg_stat_activity WHERE application_name = 'conservatory' AND datname = current_database()`
  expect(open.length).toBeGreaterThan(1)
  expect(await stores.transfers.isServiceRunning()).toBe(false)
  const other = await openPostgresStores(url)
  onTestFinished(() => other.close())
  expect(await stores.transfers.isServiceRunning()).toBe(true)
})

it('accounts export does not change texts that COPY escapes', async () => {
  const { stores, sql } = await startHere()
  const { id } = await stores.access.createAccount('bob')
  const hard = [
    { id: -(2 ** 53 - 1), name: '\\N', tag: '\\N' },
    { id: 0, name: 'C:\\new\\table', tag: 'a "quoted" \u2028 tag' },
    { id: 2 ** 53 - 1, name: '🌵 \\' },
  ]
  for (const plant of hard) await stores.plants.create(id, plant)
  // No version of the service accepts such texts.
  const controls = 'tab \t, lines \r\n, \b\f\v, \u0001, \u001f and \u007f'
  await sql`INSERT INTO plants (account, id, name, tag) VALUES (${id}, 1, ${controls}, '')`
  let lines = ''
  const add = (some: string) => {
    lines += some
  }
  await stores.transfers.copyPlants(id, { begin() {}, add, end() {} })
  expect(plantsOfLines(lines)).toStrictEqual(hard.toSpliced(2, 0, { id: 1, name: controls, tag: '' }))
})
