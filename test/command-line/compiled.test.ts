import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder, spawnService } from '../support/process.ts'

/** Runs a command that needs no data folder, with this folder as `DATA_DIR`. */
function runOver(folder: string): void {
  const env = { PATH: process.env['PATH'], DATA_DIR: folder }
  execFileSync(process.execPath, ['src/main.ts', 'accounts', '--help'], { cwd: projectFolder, env })
}

/** Starts and ends the service over a data folder, with no other compile cache than its own. */
async function serveOver(folder: string): Promise<void> {
  const environment = { DATA_DIR: folder, NODE_COMPILE_CACHE: '', LOG_LEVEL: 'silent' }
  const service = await spawnService(process.execPath, ['src/main.ts'], { environment })
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)
}

it('a command stores no compiled modules if there is no data folder', () => {
  const folder = folderForThisTest()
  runOver(join(folder, 'data'))
  expect(readdirSync(folder)).toEqual([])
})

/** Runs a process over a data folder: the service, or a command. */
const processes: readonly [string, (folder: string) => void | Promise<void>][] = [
  ['the service', serveOver],
  ['a command', runOver],
]

describe.each(processes)('%s', (_name, run) => {
  it('stores its compiled modules in the data folder for the next start, also through a symbolic link', async () => {
    const folder = folderForThisTest()
    const link = join(folderForThisTest(), 'link')
    symlinkSync(folder, link)
    await run(link)
    expect(readdirSync(join(folder, 'cache'))).toHaveLength(1)
  })

  it('neither makes nor reads a cache if other users may write to the data folder', async () => {
    const folder = folderForThisTest()
    chmodSync(folder, 0o770)
    await run(folder)
    expect(existsSync(join(folder, 'cache'))).toBe(false)
  })

  it.each<[string, (cache: string, elsewhere: string) => void]>([
    ['may be written by other users', (cache, elsewhere) => renameSync(elsewhere, cache)],
    ['is a symbolic link', (cache, elsewhere) => symlinkSync(elsewhere, cache)],
  ])('leaves a cache alone that %s', async (_case, make) => {
    const folder = folderForThisTest()
    const elsewhere = join(folder, 'elsewhere')
    mkdirSync(elsewhere)
    chmodSync(elsewhere, 0o777)
    make(join(folder, 'cache'), elsewhere)
    await run(folder)
    expect(readdirSync(join(folder, 'cache'))).toEqual([])
  })
})
