import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../src/storage/database.ts'
import { migrations } from '../src/storage/migrations.ts'
import { openSqliteStores } from '../src/storage/stores.ts'
import { compileCache, conservatory } from './support/command.ts'
import { killRounds } from './support/kill-rounds.ts'
import { spawnService } from './support/process.ts'
import { serviceForThisTest, temporaryFolder } from './support/service.ts'

const preset = 'a-key-for-durability-tests'

function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

const start = (folder: string) =>
  spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder, BOOTSTRAP_KEY: preset, LOG_LEVEL: 'silent' },
  })

function add(url: string, name: string): Promise<Response> {
  const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
  return fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name }) })
}

// The benchmark `npm run bench -- durability` does the same a hundred times.
it('failure mode 29: what was acknowledged is there exactly once after kill -9, again and again', async () => {
  const folder = folderForThisTest()
  const result = await killRounds({
    rounds: 10,
    writers: 64,
    folder,
    key: preset,
    start: async () => {
      const service = await start(folder)
      const kill = async () => {
        service.process.kill('SIGKILL')
        await service.exited
      }
      return { url: service.url, kill }
    },
  })
  expect(result).toMatchObject({ lost: [], doubled: [], integrity: 'ok' })
  expect(result.acknowledged).toBeGreaterThan(100)
  expect(result.sentAgain).toBeGreaterThan(10)
}, 120_000)

it('a log of 50 MB that a kill left behind is taken over by the next start', async () => {
  const folder = folderForThisTest()
  const path = join(folder, 'conservatory.db')
  const service = await start(folder)
  expect((await add(service.url, 'Moss')).status).toBe(200)
  // A reader holds up the cleaning of the log, as a list does that nobody reads to its end.
  const reader = new Database(path, { readonly: true })
  reader.exec('BEGIN')
  expect(reader.prepare('SELECT count(*) FROM plants').pluck().get()).toBe(1)
  const writer = new Database(path)
  writer.exec(`
    WITH RECURSIVE number (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM number WHERE n < 200999)
    INSERT INTO plants SELECT (SELECT min(id) FROM accounts), n, printf('%0250d', n), NULL FROM number`)
  writer.close()
  expect((await add(service.url, 'Fern')).status).toBe(200)
  service.process.kill('SIGKILL')
  await service.exited
  reader.close()
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(50e6)

  const next = await start(folder)
  expect((await add(next.url, 'Ivy')).status).toBe(200)
  const database = new Database(path, { readonly: true })
  expect(database.prepare('SELECT count(*), max(id) FROM plants').raw().get()).toEqual([200_003, 201_001])
  database.close()
})

describe('two services', () => {
  it('cannot have one data folder: the second is refused in one line, commands work beside the first', async () => {
    const folder = folderForThisTest()
    const first = await start(folder)
    const second = await conservatory([], { DATA_DIR: folder, PORT: '0' })
    expect(second).toMatchObject({ code: 1, stdout: '' })
    expect(second.stderr).toBe(
      `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.\n`,
    )
    expect((await conservatory(['accounts', 'list'], { DATA_DIR: folder })).code).toBe(0)
    first.process.kill('SIGKILL')
    await first.exited
    // A killed service holds nothing.
    const third = await start(folder)
    expect((await add(third.url, 'Moss')).status).toBe(200)
  })
})

it('every other command works beside a service that is written to, and the service sees what it did', async () => {
  const folder = folderForThisTest()
  const service = await start(folder)
  let isWriting = true
  const writing = (async () => {
    for (let count = 0; isWriting; count++) expect((await add(service.url, `During ${count}`)).status).toBe(200)
  })()
  const card = join(folder, 'card.json')
  writeFileSync(card, JSON.stringify({ spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Beside' } }))
  const commands = [
    ['accounts', 'create', 'beside'],
    ['accounts', 'list', '--json'],
    ['keys', 'create', '--account', 'owner', '--scopes', 'plants:read,chat'],
    ['keys', 'list'],
    ['characters', 'import', card, '--account', 'owner'],
    ['characters', 'list'],
    ['models', 'check'],
    ['backup', join(folder, 'beside.db')],
  ]
  const ended = await Promise.all(commands.map((command) => conservatory(command, { DATA_DIR: folder })))
  isWriting = false
  await writing
  const told = ended.map(({ code, stderr }, index) => [commands[index]?.join(' '), code, code === 0 ? '' : stderr])
  expect(told).toEqual(commands.map((command) => [command.join(' '), 0, '']))
  const headers = { authorization: `Bearer ${ended[2]?.stdout.trim()}` }
  expect((await fetch(`${service.url}/plants`, { headers })).status).toBe(200)
  expect(await (await fetch(`${service.url}/characters`, { headers })).text()).toContain('"Beside"')
})

describe('failure mode 30: a backup', () => {
  it('is made while writes go on, is proven, and restores what it holds', async () => {
    const folder = folderForThisTest()
    const service = await start(folder)
    for (let count = 0; count < 50; count++) await add(service.url, `Before ${count}`)
    let isWriting = true
    let written = 0
    const writing = (async () => {
      for (; isWriting; written++) await add(service.url, `During ${written}`)
    })()
    const file = join(folder, 'out', 'backup.db')
    const made = await conservatory(['backup', file], { DATA_DIR: folder })
    isWriting = false
    await writing
    expect(made).toMatchObject({ code: 0, stdout: '' })
    const contents = /is good: (.*)\.\n$/.exec(made.stderr)?.[1] ?? ''
    const count = Number(/(\d+) plants/.exec(contents)?.[1])
    expect(written).toBeGreaterThan(0)
    expect(count).toBeGreaterThanOrEqual(50)
    expect(count).toBeLessThanOrEqual(50 + written)
    expect(readdirSync(join(folder, 'out'))).toEqual(['backup.db'])
    const again = await conservatory(['backup', file], { DATA_DIR: folder })
    expect(again).toMatchObject({ code: 1, stderr: `There is a file ${file} already. Name another.\n` })

    const running = await conservatory(['restore', file, '--force'], { DATA_DIR: folder })
    expect(running).toMatchObject({ code: 1 })
    expect(running.stderr).toContain('Another service uses the data folder')
    service.process.kill('SIGTERM')
    expect(await service.exited).toBe(0)
    const unforced = await conservatory(['restore', file], { DATA_DIR: folder })
    expect(unforced).toMatchObject({ code: 1 })
    expect(unforced.stderr).toContain('--force')
    const forced = await conservatory(['restore', file, '--force'], { DATA_DIR: folder })
    expect(forced).toMatchObject({ code: 0, stderr: `${file} is restored: ${contents}.\n` })
    const restored = await start(folder)
    const answer = await fetch(`${restored.url}/plants`, { headers: { authorization: `Bearer ${preset}` } })
    const plants: readonly { readonly name: string }[] = JSON.parse(await answer.text())
    const names = [
      ...Array.from({ length: 50 }, (_, number) => `Before ${number}`),
      ...Array.from({ length: count - 50 }, (_, number) => `During ${number}`),
    ]
    // One writer after the other: the backup is a moment between two of them, with nothing missing before it.
    expect(plants.map(({ name }) => name)).toEqual(names)
  })

  it('that is damaged, or none, is refused, and the database stays', async () => {
    const folder = folderForThisTest()
    await openSqliteStores(join(folder, 'conservatory.db')).close()
    const before = readFileSync(join(folder, 'conservatory.db'))
    const file = join(folder, 'no.db')
    for (const bytes of ['no database', '']) {
      writeFileSync(file, bytes)
      const refused = await conservatory(['restore', file, '--force'], { DATA_DIR: folder })
      expect(refused.code).toBe(1)
      expect(refused.stderr.trim().split('\n')).toHaveLength(1)
    }
    expect(readFileSync(join(folder, 'conservatory.db'))).toEqual(before)
  })

  it('is made by itself before the schema changes', () => {
    const folder = folderForThisTest()
    const path = join(folder, 'conservatory.db')
    const before = openDatabase(path)
    before.exec("INSERT INTO accounts (name, created) VALUES ('owner', 0)")
    before.exec("INSERT INTO plants SELECT min(id), 77, 'Moss', NULL FROM accounts")
    before.close()
    expect(existsSync(join(folder, 'backups'))).toBe(false)
    openDatabase(path, [...migrations, { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT' }]).close()
    const [file = ''] = readdirSync(join(folder, 'backups'))
    expect(file).toMatch(/^before-9999-next-\d+\.db$/)
    const kept = new Database(join(folder, 'backups', file), { readonly: true })
    expect(kept.pragma('integrity_check', { simple: true })).toBe('ok')
    expect(kept.prepare('SELECT count(*) FROM migrations').pluck().get()).toBe(migrations.length)
    expect(kept.prepare('SELECT id, name FROM plants').all()).toEqual([{ id: 77, name: 'Moss' }])
    kept.close()
  })
})

it('an equal page is served from memory, and a write from outside is seen', async () => {
  const service = await serviceForThisTest()
  await service.request('/plants', { json: { name: 'Moss' } })
  const first = await (await service.request('/plants?limit=5')).text()
  expect(await (await service.request('/plants?limit=5')).text()).toBe(first)
  const outside = new Database(join(service.dataDirectory, 'conservatory.db'))
  outside.prepare("INSERT INTO plants SELECT min(id), 77, 'From outside', NULL FROM accounts").run()
  outside.close()
  expect(await (await service.request('/plants?limit=5')).text()).toContain('From outside')
})
