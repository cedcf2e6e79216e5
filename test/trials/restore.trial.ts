import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { compileCache } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder } from '../support/process.ts'
import {
  expectWhole,
  makeDatabase,
  makeKilled,
  restoreStopping,
  stepsOfRestore,
  stopping,
} from '../support/restores.ts'

/*
 * Kill -9 under `conservatory restore`: 20 times between each step and the next at a random moment, and once at each step.
 * Some ten minutes.
 */
const killsAStep = 20
const names = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind} ${index}`)
const plants = { old: names('Old', 20_000), restored: names('Restored', 30_000) }

it('a restore that is killed leaves the old database or the new one, whole, and loses no plant', async () => {
  const folder = folderForThisTest()
  const data = join(folder, 'data')
  const old = join(folder, 'old')
  for (const path of [data, old]) mkdirSync(path)
  const backup = makeDatabase(join(folder, 'away'), plants.restored)
  makeKilled(old, plants.old)
  const steps = await stepsOfRestore(data, backup, plants.old)
  const again = () => {
    for (const file of readdirSync(data)) rmSync(join(data, file))
    for (const file of readdirSync(old)) copyFileSync(join(old, file), join(data, file))
  }
  const found: Record<string, { old: number; restored: number; ended: number }> = {}
  for (const [index, name] of steps.entries()) {
    const at = index + 1
    const tally = { old: 0, restored: 0, ended: 0 }
    again()
    await restoreStopping(data, backup, String(at))
    tally[expectWhole(data, plants)] += 1
    for (let kill = 0; kill < killsAStep; kill++) {
      again()
      // The step lasts from a fraction of a millisecond, for a name, to some 40, for a copy.
      if (!(await killAfter(at, data, backup, Math.random() * (kill % 2 === 0 ? 2 : 40)))) tally.ended += 1
      tally[expectWhole(data, plants)] += 1
    }
    found[`${at} ${name}`] = tally
  }
  process.stderr.write(`${JSON.stringify(found, null, 1)}\n`)
  expect(await restoreStopping(data, backup, '')).toMatchObject({ code: 0 })
  expect(expectWhole(data, plants)).toBe('restored')
  expect(readdirSync(data).filter((file) => file.includes('.part'))).toEqual([])
}, 1_800_000)

/** Kills a restore so many milliseconds after it has told of a step; false when it was done by then. */
async function killAfter(step: number, data: string, backup: string, milliseconds: number): Promise<boolean> {
  const env = { ...process.env, ...compileCache, DATA_DIR: data, ...stopping('') }
  const restore = spawn(process.execPath, ['src/main.ts', 'restore', backup, '--force'], { cwd: projectFolder, env })
  let told = ''
  const reached = new Promise<void>((resolve) => {
    restore.stderr.on('data', (text) => {
      told += text
      if (new RegExp(`^step ${step} `, 'm').test(told)) resolve()
    })
  })
  const exited = once(restore, 'exit')
  await Promise.race([reached, exited])
  await delay(milliseconds)
  restore.kill('SIGKILL')
  await exited
  return restore.signalCode === 'SIGKILL'
}
