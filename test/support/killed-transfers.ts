import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { findAccount } from '../../src/access/access.ts'
import type { PortablePlant } from '../../src/plants/rows.ts'
import type { Stores } from '../../src/stores/stores.ts'
import { bare, exportedFrom, fileOf, plantsIn } from './account-files.ts'
import { compileCache, projectFolder } from './process.ts'

/** A database whose commands are killed. The open `stores` count as a running service, so the commands write in small batches. */
export interface KilledPlace {
  readonly folder: string
  readonly settings: Readonly<Record<string, string>>
  readonly stores: Stores
}

/** How often each command was killed before its end. */
export interface Kills {
  readonly import: number
  readonly undo: number
  readonly delete: number
}

/**
 * Imports a file into an account, undoes the import, imports the file again and deletes the account. The first import, the undo
 * and the deletion are killed repeatedly with kill -9, and plants are added in between. After each kill and at each end it checks
 * that no plant is lost or duplicated.
 * @param kills how often each command is killed; a command that ends before its kill does not count
 */
export async function killTransfers(place: KilledPlace, plantCount: number, kills: number): Promise<Kills> {
  const { folder, stores } = place
  const { access, plants, transfers } = stores
  const { id } = await access.createAccount('ann')
  const others: PortablePlant[] = []
  const addOther = async () => {
    const { plant } = await plants.create(id, { name: `other ${others.length}` })
    others.push({ id: plant.id, name: plant.name })
  }
  await addOther()
  const file = join(folder, 'plants.jsonl')
  const list = Array.from({ length: plantCount }, (_, index) => ({
    id: index + 10,
    name: `plant ${index}`,
    tag: `tag ${index % 7}`,
  }))
  writeFileSync(file, fileOf(list))
  const isFrom = (plant: PortablePlant) => list[plant.id - 10]?.name === plant.name
  /** Checks that all plants that were not in the file are there. @returns how many plants of the file are there */
  const look = async () => {
    const held = await exportedFrom(transfers, id)
    const strange = held.filter((plant) => !isFrom(plant))
    expect(strange).toStrictEqual(others)
    return held.length - strange.length
  }
  const imported = ['accounts', 'import', 'ann', file]
  const countOf = async () => (await plants.count(id)) - others.length

  const importKills = await killedAgain(place, imported, kills, plantCount, countOf, async () => {
    const { done = 0 } = (await transfers.findImport({ account: id, digest: await digestOf(file) })) ?? {}
    expect(await look()).toBe(done === plantCount ? done : done + Number((await countOf()) > 0))
    await addOther()
  })
  expect(await look()).toBe(plantCount)
  const undoKills = await killedAgain(
    place,
    [...imported, '--undo'],
    kills,
    plantCount,
    async () => plantCount - (await countOf()),
    async () => {
      await look()
      await addOther()
    },
  )
  expect(await look()).toBe(0)
  expect((await runUntil(place, imported)).code).toBe(0)
  const all = await exportedFrom(transfers, id)
  expect(all).toHaveLength(plantCount + others.length)

  const backups = join(folder, 'backups')
  const kept = async () => {
    const files = readdirSync(backups).filter((name) => /^account-.*\.jsonl$/.test(name))
    return (await Promise.all(files.map((name) => plantsIn(readFileSync(join(backups, name), 'utf8')))))
      .flat()
      .map(bare)
  }
  const deleteKills = await killedAgain(
    place,
    ['accounts', 'delete', 'ann'],
    kills,
    plantCount,
    async () => all.length - (await plants.count(id)),
    async () => {
      const there = await exportedFrom(transfers, id)
      const saved = await kept()
      const known = new Set([...there, ...saved].map((plant) => plant.id))
      expect(known.size).toBe(all.length)
      if (there.length < all.length) expect(saved).toStrictEqual(all)
    },
  )
  await expect(findAccount(access, 'ann')).rejects.toThrow('There is no account "ann"')
  expect(await kept()).toStrictEqual(all)
  expect(readdirSync(backups).filter((name) => name.endsWith('.part'))).toEqual([])
  return { import: importKills, undo: undoKills, delete: deleteKills }
}

/**
 * Kills a command repeatedly, each time a little later, and then runs it to its end.
 * @param progress returns how many plants the command has done so far, up to `total`
 * @returns how often the command was killed before its end
 */
async function killedAgain(
  place: KilledPlace,
  words: readonly string[],
  kills: number,
  total: number,
  progress: () => Promise<number>,
  look: () => Promise<void>,
): Promise<number> {
  let killed = 0
  for (let kill = 0; kill < kills; kill++) {
    const target = (total * (kill + Math.random())) / (kills + 1)
    const { code } = await runUntil(place, words, async () => (await progress()) >= target)
    if (code !== null) break
    killed++
    await look()
  }
  const { code, stderr } = await runUntil(place, words)
  expect({ code, stderr }).toMatchObject({ code: 0 })
  return killed
}

/** Runs a command as a child process, and kills it when a condition is true. The exit code is null if it was killed. */
async function runUntil(
  { settings }: KilledPlace,
  words: readonly string[],
  isTime?: () => Promise<boolean>,
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...compileCache, ...settings }
  const command = spawn(process.execPath, ['src/main.ts', ...words], { cwd: projectFolder, env })
  let stderr = ''
  command.stderr.on('data', (text) => {
    stderr += text
  })
  const exited = once(command, 'exit')
  while (isTime && command.exitCode === null) {
    if (await isTime()) command.kill('SIGKILL')
    if (command.killed) break
    await delay(10)
  }
  await exited
  return { code: command.exitCode, stderr }
}

async function digestOf(path: string): Promise<string> {
  const { createHash } = await import('node:crypto')
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}
