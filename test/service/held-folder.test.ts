import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { lockForServing } from '../../src/storage/file-lock.ts'
import { retryAtStart } from '../../src/storage/start-wait.ts'
import { openStores } from '../../src/stores/open.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { begin } from '../support/waiting-start.ts'

it('(s) over SQLite a start waits for a data folder that another service holds', async () => {
  const folder = folderForThisTest()
  const lock = lockForServing(folder)
  const service = await begin({ DATA_DIR: folder, START_TIMEOUT: '3600' })
  await service.waits()
  expect(service.stderr()).toContain('Another service uses the data folder')
  lock.release()
  await service.listening
  expect(service.told()).toBe(1)
})

it('(s) over SQLite a start waits for a database file that another program holds', async () => {
  const folder = folderForThisTest()
  const config = readConfig({ DATA_DIR: folder })
  await (await openStores(config)).close()
  const other = new Database(config.databasePath)
  other.pragma('locking_mode = EXCLUSIVE')
  other.exec('BEGIN EXCLUSIVE')
  const told: string[] = []
  const opening = retryAtStart(3600, (sentence) => {
    told.push(sentence)
    other.close()
  })
  await (await opening(() => openStores(config))).close()
  expect(told).toEqual([expect.stringContaining(`${join(folder, 'conservatory.db')} is held by another program.`)])
})
