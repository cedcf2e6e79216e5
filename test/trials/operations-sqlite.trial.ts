import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { migrations } from '../../src/storage/migrations.ts'
import { compileCache, conservatoryProcess } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder } from '../support/process.ts'
import { expectWhole, fileIn, makeDatabase, makeKilled, plantsIn, stopping } from '../support/restores.ts'

/*
 * Kills a backup, a restore and a migration of SQLite with kill -9: once at each step, and 20 times (KILLS) at a random moment
 * after each step. This takes some twenty minutes.
 */
const killsAStep = Number(process.env['KILLS'] ?? 20)
const names = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind} ${index}`)
const plants = { old: names('Old', 20_000), restored: names('Restored', 30_000) }

/** A command whose process is killed. */
interface Killed {
  readonly args: readonly string[]
  /** The content of the data folder before each run. */
  readonly before: string
  /** The data folder of the command. Its folder `backups` is for copies. */
  readonly data: string
  /** Checks that nothing is broken or lost. @returns the progress of the command */
  check(): string
}

it('a backup that is killed leaves the database unchanged, and no broken file under the name of the backup', async () => {
  const { before, data } = foldersForThisTest()
  makeKilled(before, plants.old)
  const file = join(data, 'backups', 'own.db')
  const check = () => {
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    return copiesIn(data) === 0 ? 'none' : 'made'
  }
  await killAtEachStep({ args: ['backup', file], before, data, check })
  rmSync(file, { force: true })
  expect(await conservatoryProcess(['backup', file], { DATA_DIR: data })).toMatchObject({ code: 0 })
  expect(copiesIn(data)).toBe(1)
  expect(unfinishedIn(join(data, 'backups'))).toEqual([])
}, 3_600_000)

it('a restore that is killed leaves the old or the restored database, complete, and loses no plant', async () => {
  const { before, data, away } = foldersForThisTest()
  makeKilled(before, plants.old)
  const args = ['restore', makeDatabase(away, plants.restored), '--force']
  await killAtEachStep({ args, before, data, check: () => expectWhole(data, plants) })
  expect(await conservatoryProcess(args, { DATA_DIR: data })).toMatchObject({ code: 0 })
  expect(expectWhole(data, plants)).toBe('restored')
  expect(unfinishedIn(data)).toEqual([])
}, 3_600_000)

it('a migration that is killed leaves the old or the new schema, all plants, and only complete backups', async () => {
  const { before, data } = foldersForThisTest()
  makeDatabase(before, plants.old, migrations.slice(0, -3))
  // This command migrates the database, because it opens the database for writes, as a start does.
  const args = ['accounts', 'create', 'another']
  const check = () => {
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    return copiesIn(data) === 0 ? 'not kept yet' : 'kept'
  }
  await killAtEachStep({ args, before, data, check })
  startAgain({ before, data })
  expect(await conservatoryProcess(args, { DATA_DIR: data })).toMatchObject({ code: 0 })
  expect(check()).toBe('kept')
  expect(unfinishedIn(join(data, 'backups'))).toEqual([])
}, 3_600_000)

function foldersForThisTest() {
  const folder = folderForThisTest()
  const [before, data, away] = [join(folder, 'before'), join(folder, 'data'), join(folder, 'away')]
  for (const path of [before, data]) mkdirSync(path)
  return { before, data, away }
}

/** Restores the state of the data folder before a run. */
function startAgain({ before, data }: Pick<Killed, 'before' | 'data'>): void {
  rmSync(data, { recursive: true, force: true })
  cpSync(before, data, { recursive: true })
  mkdirSync(join(data, 'backups'), { recursive: true })
}

/** Checks that each copy with a final name has all plants. @returns the number of these copies */
function copiesIn(data: string): number {
  const folder = join(data, 'backups')
  const copies = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.db')) : []
  for (const name of copies) expect(plantsIn(join(folder, name))).toEqual(plants.old)
  return copies.length
}

const unfinishedIn = (folder: string) => readdirSync(folder).filter((name) => /\.(?:part|scratch)/.test(name))

/** Kills a command at each of its steps, and at random moments after each step. Prints on stderr how far the command had come. */
async function killAtEachStep(command: Killed): Promise<void> {
  const { args, data, check } = command
  startAgain(command)
  const ended = await conservatoryProcess(args, { DATA_DIR: data, ...stopping('') })
  expect(ended).toMatchObject({ code: 0 })
  const steps = [...ended.stderr.matchAll(/^step \d+ (\w+)$/gm)].map(([, name = '']) => name)
  expect(steps.length).toBeGreaterThan(3)
  const found: Record<string, Record<string, number>> = {}
  for (const [index, name] of steps.entries()) {
    const tally: Record<string, number> = {}
    const count = (what: string) => {
      tally[what] = (tally[what] ?? 0) + 1
    }
    startAgain(command)
    await conservatoryProcess(args, { DATA_DIR: data, ...stopping(String(index + 1)) })
    count(check())
    for (let kill = 0; kill < killsAStep; kill++) {
      startAgain(command)
      // A step takes a fraction of a millisecond for a rename, and some 40 ms for a copy.
      if (!(await killAfter(index + 1, command, Math.random() * (kill % 2 === 0 ? 2 : 40)))) count('ended before')
      count(check())
    }
    found[`${index + 1} ${name}`] = tally
  }
  process.stderr.write(`${args[0]}: ${killsAStep} kills after each step, ${JSON.stringify(found)}\n`)
}

/** Kills a command some milliseconds after it has reported a step. @returns false if the command had ended before */
async function killAfter(step: number, { args, data }: Killed, milliseconds: number): Promise<boolean> {
  const env = { ...process.env, ...compileCache, DATA_DIR: data, ...stopping('') }
  const running = spawn(process.execPath, ['src/main.ts', ...args], { cwd: projectFolder, env })
  let told = ''
  const reached = new Promise<void>((resolve) => {
    running.stderr.on('data', (text) => {
      told += text
      if (new RegExp(`^step ${step} `, 'm').test(told)) resolve()
    })
  })
  const exited = once(running, 'exit')
  await Promise.race([reached, exited])
  await delay(milliseconds)
  running.kill('SIGKILL')
  await exited
  return running.signalCode === 'SIGKILL'
}
