import { closeSync, fsyncSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepareFolder } from '../storage/data-folder.ts'
import { headerLine, plantLine } from './account-file.ts'
import type { PlantTaker, PortablePlant } from './portable.ts'

/** Keeps the plants of an account in a file, which is on disk when all have come; without plants there is none. */
export class PlantsFile implements PlantTaker {
  readonly #folder: string
  readonly #account: string
  #opened: number | undefined
  /** Where it is; undefined while there is none. */
  path: string | undefined

  constructor(folder: string, account: string) {
    this.#folder = folder
    this.#account = account
  }

  begin(count: number): void {
    this.discard()
    if (count === 0) return
    prepareFolder(this.#folder)
    const path = join(this.#folder, fileName(this.#account))
    this.#opened = openSync(path, 'wx', 0o600)
    this.path = path
    // Unlike writeSync, it writes all of it or throws, on a disk that is nearly full too.
    writeFileSync(this.#opened, headerLine(this.#account, count))
  }

  add(plants: Iterable<PortablePlant>): void {
    if (this.#opened === undefined) return
    for (const plant of plants) writeFileSync(this.#opened, plantLine(plant))
  }

  end(): void {
    if (this.#opened !== undefined) fsyncSync(this.#opened)
    this.#close()
  }

  /** Removes what there is of it. */
  discard(): void {
    this.#close()
    if (this.path !== undefined) rmSync(this.path, { force: true })
    this.path = undefined
  }

  #close(): void {
    if (this.#opened !== undefined) closeSync(this.#opened)
    this.#opened = undefined
  }
}

/** A name that every file system takes, whatever the account is called. */
function fileName(account: string): string {
  const time = new Date().toISOString().replaceAll(':', '-')
  return `account-${account.replace(/[^A-Za-z0-9._@-]/g, '_')}-${time}.jsonl`
}
