import { execFileSync } from 'node:child_process'
import { chmodSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder } from '../support/process.ts'

/** Runs a command that needs no data folder, with this folder as `DATA_DIR`. */
function runOver(folder: string): void {
  const env = { PATH: process.env['PATH'], DATA_DIR: folder }
  execFileSync(process.execPath, ['src/main.ts', 'accounts', '--help'], { cwd: projectFolder, env })
}

it('a command stores its compiled modules in the data folder for the next command', () => {
  const folder = folderForThisTest()
  runOver(folder)
  expect(readdirSync(join(folder, 'cache'))).toHaveLength(1)
})

it('a command stores no compiled modules if other users may write to the data folder, or if there is no data folder', () => {
  const folder = folderForThisTest()
  chmodSync(folder, 0o770)
  runOver(folder)
  runOver(join(folder, 'data'))
  expect(readdirSync(folder)).toEqual([])
})
