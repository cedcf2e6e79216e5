import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations } from '../../src/storage/migrations.ts'
import { conservatory, serveForThisTest } from '../support/command.ts'
import { add, folderForThisTest, preset, start } from '../support/preset-service.ts'
import { makeDatabase, makeKilled, plantsIn } from '../support/restores.ts'

describe('a backup', () => {
  it('is made and tested while a client writes, and a restore brings its rows back', async () => {
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
    expect(again).toMatchObject({ code: 1, stderr: `${file} exists already. Name a file that does not exist.\n` })

    const running = await conservatory(['restore', file, '--force'], { DATA_DIR: folder })
    expect(running).toMatchObject({ code: 1 })
    expect(running.stderr).toContain('Another service uses the data folder')
    service.process.kill('SIGTERM')
    expect(await service.exited).toBe(0)
    const unforced = await conservatory(['restore', file], { DATA_DIR: folder })
    expect(unforced).toMatchObject({ code: 1 })
    expect(unforced.stderr).toContain('--force')
    const forced = await conservatory(['restore', file, '--force'], { DATA_DIR: folder })
    expect(forced.code).toBe(0)
    expect(forced.stderr).toMatch(
      /^(.*) is restored: (.*)\.\nThe database that was there is kept as .*\/conservatory\.db\.before-restore-\d{8}T\d{6}Z\.\n$/,
    )
    expect(forced.stderr).toContain(`${file} is restored: ${contents}.\n`)
    const restored = await serveForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset, LOG_LEVEL: 'silent' })
    const answer = await fetch(`${restored.url}/plants`, { headers: { authorization: `Bearer ${preset}` } })
    const plants: readonly { readonly name: string }[] = JSON.parse(await answer.text())
    const names = [
      ...Array.from({ length: 50 }, (_, number) => `Before ${number}`),
      ...Array.from({ length: count - 50 }, (_, number) => `During ${number}`),
    ]
    // The writer waits for each write, so the backup has all writes up to some moment, without a gap.
    expect(plants.map(({ name }) => name)).toEqual(names)
  })

  const next = { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT' }
  const copies = (folder: string) => readdirSync(join(folder, 'backups'))

  it('is made automatically before the schema changes', () => {
    const folder = folderForThisTest()
    const path = makeKilled(folder, ['Moss', 'Fern'])
    openDatabase(path).close()
    expect(existsSync(join(folder, 'backups'))).toBe(false)
    openDatabase(path, [...migrations, next]).close()
    expect(copies(folder)).toEqual(['before-9999-next.db'])
    const file = join(folder, 'backups', 'before-9999-next.db')
    expect(plantsIn(file)).toEqual(['Moss', 'Fern'])
    const kept = new Database(file, { readonly: true })
    expect(kept.prepare('SELECT count(*) FROM migrations').pluck().get()).toBe(migrations.length)
    kept.close()
  })

  it('before a migration that fails several times is one file, with the newest rows', () => {
    const folder = folderForThisTest()
    const path = makeDatabase(folder, ['Moss'])
    const failing = { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT; SELECT no_such_function()' }
    const add = new Database(path)
    for (let count = 0; count < 3; count++) {
      expect(() => openDatabase(path, [...migrations, failing])).toThrow('no_such_function')
      expect(copies(folder)).toEqual(['before-9999-next.db'])
      // The older version of the service writes between two attempts.
      add.exec(`INSERT INTO plants (account, id, name) VALUES (1, ${count + 100}, 'Later ${count}')`)
    }
    add.close()
    expect(plantsIn(join(folder, 'backups', 'before-9999-next.db'))).toEqual(['Moss', 'Later 0', 'Later 1'])
  })

  it('before a migration is intact; if the database is damaged, the schema does not change, and no file is left', () => {
    const folder = folderForThisTest()
    const path = makeDatabase(folder, ['Moss'])
    const database = new Database(path)
    // Now a row violates a constraint of its table. Only the integrity check finds this.
    database.unsafeMode()
    database.pragma('writable_schema = ON')
    database.exec(
      "UPDATE sqlite_schema SET sql = replace(sql, 'name TEXT NOT NULL,', 'name TEXT NOT NULL CHECK (id > 9),') WHERE name = 'plants'",
    )
    database.close()
    expect(() => openDatabase(path, [...migrations, next])).toThrow(
      `${path} is damaged: CHECK constraint failed in plants.`,
    )
    expect(copies(folder)).toEqual([])
    const after = new Database(path)
    expect(after.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'next'").get()).toBeUndefined()
    after.close()
  })

  it('is not made of a database of a newer version, which is refused', () => {
    const folder = folderForThisTest()
    const path = makeDatabase(folder, ['Moss'], [...migrations, next])
    rmSync(join(folder, 'backups'), { recursive: true, force: true })
    const other = { name: '9998-other', sql: 'CREATE TABLE other (id INTEGER) STRICT' }
    expect(() => openDatabase(path, [...migrations, other])).toThrow('was written by a newer version')
    expect(existsSync(join(folder, 'backups'))).toBe(false)
  })
})
