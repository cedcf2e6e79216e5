import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { isPrintedToFile, print, printAndWait } from '../print.ts'
import { prepareFolder } from '../storage/data-folder.ts'
import { headerLine } from './account-file.ts'
import { namelessFile } from './input-file.ts'
import type { ExportSink } from './transfers.ts'

/** Larger pieces stay in memory until a full collection: pieces of 256 KiB took 25 MB more. */
const pieceBytes = 16 * 1024

/**
 * Prints an account's file. The reader of a pipe may be slow, so the export first goes into a file without a name: then the
 * database's snapshot ends as soon as all plants are read, and the plants do not wait in memory.
 * @param folder the folder of the file without a name
 * @param exportTo exports the plants
 */
export async function printExport(
  account: string,
  folder: string,
  exportTo: (sink: ExportSink) => Promise<void>,
): Promise<void> {
  const to = (write: (lines: string) => void) =>
    exportTo({ begin: (...counts) => write(headerLine(account, ...counts)), add: write, end() {} })
  if (isPrintedToFile()) return await to(print)
  const file = await namelessFile(folder)
  try {
    await to((lines) => writeFileSync(file.fd, lines))
    const pieces = file.createReadStream({ encoding: 'utf8', start: 0, highWaterMark: pieceBytes, autoClose: false })
    for await (const piece of pieces) {
      if (!(await printAndWait(String(piece)))) return
    }
  } finally {
    await file.close()
  }
}

/** Writes an account's plants into a file. It gets its name when all plants are on disk. Without plants, there is no file. */
export class PlantsFile implements ExportSink {
  /** The path of the complete file. */
  readonly path: string
  readonly #account: string
  #opened: number | undefined

  constructor(path: string, account: string) {
    this.path = path
    this.#account = account
  }

  begin(plants: number, belongings: number): void {
    if (plants === 0) return
    prepareFolder(dirname(this.path))
    this.#opened = openSync(partOf(this.path), 'wx', 0o600)
    this.#write(headerLine(this.#account, plants, belongings))
  }

  add(lines: string): void {
    this.#write(lines)
  }

  end(): void {
    if (this.#opened === undefined) return
    fsyncSync(this.#opened)
    this.#close()
    renameSync(partOf(this.path), this.path)
    const folder = openSync(dirname(this.path), 'r')
    fsyncSync(folder)
    closeSync(folder)
  }

  /** Removes the incomplete file. */
  discard(): void {
    this.#close()
    discardPart(this.path)
  }

  #write(lines: string): void {
    // Unlike writeSync, writeFileSync writes all bytes or throws, even on a disk that is nearly full.
    if (this.#opened !== undefined) writeFileSync(this.#opened, lines)
  }

  #close(): void {
    if (this.#opened !== undefined) closeSync(this.#opened)
    this.#opened = undefined
  }
}

/** Removes the incomplete file of an interrupted run. */
export function discardPart(path: string): void {
  rmSync(partOf(path), { force: true })
}

function partOf(path: string): string {
  return `${path}.part`
}

/** A new path in a folder for the plants of an account. The path is valid on every file system, for any name of the account. */
export function safetyPath(folder: string, account: string): string {
  const time = new Date().toISOString().replaceAll(':', '-')
  const begin = resolve(join(folder, `account-${account.replace(/[^A-Za-z0-9._@-]/g, '_')}-${time}`))
  let path = `${begin}.jsonl`
  for (let count = 2; existsSync(path); count++) path = `${begin}-${count}.jsonl`
  return path
}
