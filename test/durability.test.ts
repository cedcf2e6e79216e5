import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../src/storage/database.ts'
import { migrations } from '../src/storage/migrations.ts'
import { openSqliteStores } from '../src/storage/stores.ts'
import { compileCache, conservatory } from './support/command.ts'
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

it('failure mode 29: what was acknowledged is there exactly once after kill -9, again and again', async () => {
  const folder = folderForThisTest()
  const acknowledged = new Set<string>()
  for (let round = 0; round < 10; round++) {
    const service = await start(folder)
    let isAlive = true
    const writer = async (number: number) => {
      for (let count = 0; isAlive; count++) {
        const name = `${round}-${number}-${count}`
        const answer = await add(service.url, name).catch(() => undefined)
        if (answer?.status === 200) acknowledged.add(name)
        else if (answer) throw new Error(`${answer.status}`)
        else return
      }
    }
    const writers = Array.from({ length: 64 }, (_, number) => writer(number))
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300))
    service.process.kill('SIGKILL')
    await service.exited
    isAlive = false
    await Promise.all(writers)
  }
  const database = new Database(join(folder, 'conservatory.db'))
  onTestFinished(() => {
    database.close()
  })
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
  const names = database.prepare<[], string>('SELECT name FROM plants').pluck().all()
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  expect(acknowledged.size).toBeGreaterThan(100)
  expect([...acknowledged].filter((name) => counts.get(name) !== 1)).toEqual([])
  expect([...counts.values()].every((count) => count === 1)).toBe(true)
}, 120_000)

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

describe('failure mode 30: a backup', () => {
  it('is made while writes go on, is proven, and restores what it holds', async () => {
    const folder = folderForThisTest()
    const service = await start(folder)
    for (let count = 0; count < 50; count++) await add(service.url, `Before ${count}`)
    let isWriting = true
    const writing = (async () => {
      for (let count = 0; isWriting; count++) await add(service.url, `During ${count}`)
    })()
    const file = join(folder, 'out', 'backup.db')
    const made = await conservatory(['backup', file], { DATA_DIR: folder })
    isWriting = false
    await writing
    expect(made).toMatchObject({ code: 0, stdout: '' })
    expect(made.stderr).toMatch(/is good: .*\d+ plants/)
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
    expect((await conservatory(['restore', file, '--force'], { DATA_DIR: folder })).code).toBe(0)
    const restored = await start(folder)
    const plants = await fetch(`${restored.url}/plants`, { headers: { authorization: `Bearer ${preset}` } })
    const names = JSON.stringify(await plants.json())
    for (let count = 0; count < 50; count++) expect(names).toContain(`"Before ${count}"`)
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
    openDatabase(path).close()
    expect(existsSync(join(folder, 'backups'))).toBe(false)
    openDatabase(path, [...migrations, { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT' }]).close()
    const [file = ''] = readdirSync(join(folder, 'backups'))
    expect(file).toMatch(/^before-9999-next-\d+\.db$/)
    const kept = new Database(join(folder, 'backups', file), { readonly: true })
    expect(kept.prepare('SELECT count(*) FROM migrations').pluck().get()).toBe(migrations.length)
    kept.close()
  })
})

it('failure mode 32: SIGTERM with open streams is done within the grace, with exit 0', async () => {
  const folder = folderForThisTest()
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder, BOOTSTRAP_KEY: preset, SHUTDOWN_GRACE: '1' },
  })
  const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'understudy/stall', messages: [{ role: 'user', content: 'Hi' }], stream: true })
  const stream = await fetch(`${service.url}/chat/completions`, { method: 'POST', headers, body })
  expect(stream.status).toBe(200)
  const begun = performance.now()
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)
  expect(performance.now() - begun).toBeLessThan(8000)
  await stream.text().catch(() => '')
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
