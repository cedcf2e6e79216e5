import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import type { Migration } from '../../src/storage/migrations.ts'
import { conservatoryProcess, type Ended } from './command.ts'

/** The file of the database in a data folder. */
export const fileIn = (folder: string) => join(folder, 'conservatory.db')

/** Makes a database with these plants in a folder; all plants are checkpointed into the file. */
export function makeDatabase(folder: string, names: readonly string[], history?: readonly Migration[]): string {
  mkdirSync(folder, { recursive: true })
  const database = openDatabase(fileIn(folder), history)
  insert(database, names)
  database.close()
  return fileIn(folder)
}

/** Makes a database in the state after a kill of its service: half of the plants are only in the log beside the file. */
export function makeKilled(folder: string, names: readonly string[]): string {
  const made = makeDatabase(join(folder, 'making'), names.slice(0, names.length / 2))
  const database = new Database(made)
  insert(database, names.slice(names.length / 2))
  for (const beside of ['', '-wal']) copyFileSync(made + beside, fileIn(folder) + beside)
  database.close()
  rmSync(join(folder, 'making'), { recursive: true })
  return fileIn(folder)
}

function insert(database: Database.Database, names: readonly string[]): void {
  database.transaction(() => {
    database.exec("INSERT OR IGNORE INTO accounts (id, name, created) VALUES (1, 'owner', 0)")
    const count = Number(database.prepare('SELECT count(*) FROM plants').pluck().get())
    const add = database.prepare('INSERT INTO plants (account, id, name) VALUES (1, ?, ?)')
    for (const [index, name] of names.entries()) add.run(count + index, name)
  })()
}

/** Checks the integrity of a database. @returns the names of its plants */
export function plantsIn(path: string): readonly unknown[] {
  const database = new Database(path, { fileMustExist: true })
  try {
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
    return database.prepare('SELECT name FROM plants ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
}

/** The names of the old databases that restores have kept in a folder. */
export const keptIn = (folder: string) =>
  readdirSync(folder).filter((name) => /^conservatory\.db\.before-restore-\d{8}T\d{6}Z$/.test(name))

/**
 * Settings of a process that stops at a step.
 * @param at the step; if it is empty, the process prints its steps and runs to its end
 */
export const stopping = (at: string) => ({
  NODE_OPTIONS: `--import=${new URL('stop-restore.ts', import.meta.url).href}`,
  STOP_AT: at,
})

/**
 * Runs a restore over the database of a killed service, and then empties the data folder.
 * @returns the steps of the restore, each `rm`, `rename` or `fsync`
 */
export async function stepsOfRestore(data: string, backup: string, old: readonly string[]): Promise<readonly string[]> {
  makeKilled(data, old)
  const ended = await restoreStopping(data, backup, '')
  expect(ended.code).toBe(0)
  for (const file of readdirSync(data)) rmSync(join(data, file))
  return [...ended.stderr.matchAll(/^step \d+ (\w+)$/gm)].map(([, name = '']) => name)
}

/** Restores a backup in a child process that stops at a step. */
export function restoreStopping(folder: string, backup: string, at: string): Promise<Ended> {
  return conservatoryProcess(['restore', backup, '--force'], { DATA_DIR: folder, ...stopping(at) })
}

/**
 * Expects that `conservatory.db` is the complete old or the complete restored database. If it is the restored database, the old
 * database must be kept under another name.
 * @returns which of the two databases is `conservatory.db`
 */
export function expectWhole(
  folder: string,
  plants: { readonly old: readonly string[]; readonly restored: readonly string[] },
): 'old' | 'restored' {
  const kept = keptIn(folder).map((name) => plantsIn(join(folder, name)))
  for (const one of kept) expect(one).toEqual(one.length === plants.old.length ? plants.old : plants.restored)
  const there = plantsIn(fileIn(folder))
  const which = there.length === plants.old.length ? 'old' : 'restored'
  expect(there).toEqual(plants[which])
  if (which === 'restored') expect(kept).toContainEqual(plants.old)
  return which
}
