import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { folderForThisTest } from '../support/preset-service.ts'
import { begin } from '../support/waiting-start.ts'

it('(s) over SQLite a start waits for a data folder that another service holds, and for a file that another program does', async () => {
  const folder = folderForThisTest()
  const before = await begin({ DATA_DIR: folder })
  await before.listening
  const after = await begin({ DATA_DIR: folder, START_TIMEOUT: '3600' })
  await after.waits()
  expect(after.stderr()).toContain('Another service uses the data folder')
  before.process.kill('SIGTERM')
  await after.listening
  expect(after.told()).toBe(1)
  after.process.kill('SIGTERM')
  await after.exited

  const database = new Database(join(folder, 'conservatory.db'))
  database.pragma('locking_mode = EXCLUSIVE')
  database.exec('BEGIN EXCLUSIVE')
  const held = await begin({ DATA_DIR: folder, START_TIMEOUT: '3600' })
  await held.waits()
  expect(held.stderr()).toContain('conservatory.db is held by another program.')
  database.close()
  await held.listening
}, 60_000)
