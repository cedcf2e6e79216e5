import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { conservatory } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { compileCache, projectFolder } from '../support/process.ts'
import { makeDatabase } from '../support/test-database.ts'

/** A data folder with an account, and another connection that has the write lock of the database. */
async function writtenFolder() {
  const folder = folderForThisTest()
  const settings = { DATA_DIR: folder }
  await makeDatabase(folder)
  expect(await conservatory(['accounts', 'create', 'ann'], settings)).toMatchObject({ code: 0 })
  const writer = new Database(join(folder, 'conservatory.db'))
  onTestFinished(() => void writer.close())
  writer.exec('BEGIN IMMEDIATE')
  return { settings, writer }
}

it('(o) commands that only read do not wait for writers', async () => {
  const { settings } = await writtenFolder()
  const commands = [
    ['accounts', 'list'],
    ['keys', 'list'],
    ['plants', 'shares'],
    ['characters', 'list'],
    ['usage'],
    ['audit'],
  ]
  for (const command of commands) {
    expect([command, await conservatory(command, settings)]).toMatchObject([command, { code: 0, stderr: '' }])
  }
})

it('(o) a command that writes waits for another writer, reports that, and goes on', async () => {
  const { settings, writer } = await writtenFolder()
  const env = { PATH: process.env['PATH'], ...compileCache, ...settings }
  const child = spawn(process.execPath, ['src/main.ts', 'accounts', 'create', 'ben'], { cwd: projectFolder, env })
  const [told] = await once(child.stderr, 'data')
  expect(String(told)).toBe('Another program writes to the database. Waiting for it, 30 s at most.\n')
  writer.exec('ROLLBACK')
  expect(await once(child, 'close')).toStrictEqual([0, null])
})
