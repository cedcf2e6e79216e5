import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations } from '../../src/storage/migrations.ts'
import { openSqliteStores } from '../../src/storage/stores.ts'
import { conservatory } from '../support/command.ts'
import { add, folderForThisTest, preset, start } from '../support/preset-service.ts'

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
