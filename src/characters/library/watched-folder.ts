import { type BigIntStats, type FSWatcher, realpathSync, watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join, resolve } from 'node:path'
import { ApiError } from '../../errors.ts'

/** A file of a watched folder, and the value read from it. */
export interface FolderFile<T> {
  readonly file: string
  readonly value: T
}

/** A file of a watched folder that could not be read. */
export interface UnreadableFile {
  readonly file: string
  readonly reason: string
}

/** The state of a file at its last check. The signature changes whenever the file is written or replaced. */
type FileState<T> = { readonly signature: string } & (FolderFile<T> | UnreadableFile)

/** The options of a watched folder: which files are read, and the function that reads a file. */
export interface FolderReading<T> {
  /** File extensions in lower case, with the dot. */
  readonly extensions: readonly string[]
  /** Larger files are reported as unreadable, and not opened. */
  readonly maxFileBytes: number
  /** Reads the bytes of a file. @throws CardError if they are not a valid card or lorebook */
  readonly read: (bytes: Buffer, file: string) => T | Promise<T>
  /** The system clock in milliseconds, which is compared with the modification times of files. */
  readonly now: () => number
}

/** A changed folder is scanned after so many milliseconds without a further change. */
const quietMs = 250
/** For so many milliseconds after its last write, an unreadable file is not reported, because it may be half written. */
const settledMs = 2000
/** Milliseconds between checks whether the folder exists. */
const checkIntervalMs = 2000
/** The number of these checks after which the folder is scanned in any case: some file systems send no change events. */
const checksPerScan = 15

/** The files of one folder. A scan reads each file that is new or has changed. A missing folder has no files. */
export class WatchedFolder<T> {
  readonly path: string
  readonly #reading: FolderReading<T>
  #states: ReadonlyMap<string, FileState<T>> = new Map()
  #watcher: { readonly watcher: FSWatcher; readonly folder: string } | undefined
  #timers: NodeJS.Timeout[] = []
  /** Schedules a scan; undefined while the folder is not watched. */
  #changed: (() => void) | undefined

  constructor(path: string, reading: FolderReading<T>) {
    this.path = path
    this.#reading = reading
  }

  /** The readable files, in the order of their names. */
  get files(): readonly FolderFile<T>[] {
    return [...this.#states.values()].filter((seen) => 'value' in seen)
  }

  get unreadable(): readonly UnreadableFile[] {
    return [...this.#states.values()].filter((seen) => 'reason' in seen)
  }

  /**
   * Reads new and changed files, and forgets removed files. An unreadable file that may be half written keeps its last state. If
   * the folder is watched, a further scan is scheduled for such a file.
   * @returns whether there was any change
   */
  async scan(): Promise<boolean> {
    const before = this.#states
    const after = new Map<string, FileState<T>>()
    for (const name of await this.#names()) {
      const file = join(this.path, name)
      const seen = await this.#check(file, before.get(file))
      if (seen) after.set(file, seen)
    }
    this.#states = after
    return after.size !== before.size || [...after].some(([file, seen]) => before.get(file) !== seen)
  }

  /** Calls `onChange` shortly after each possible change of the folder, and at intervals, until `close`. */
  watch(onChange: () => void): void {
    const changed = () => {
      clearTimeout(this.#timers[1])
      this.#timers[1] = setTimeout(onChange, quietMs).unref()
    }
    this.#changed = changed
    let checks = 0
    const attach = async () => {
      const isNew = await this.#attach(changed)
      if (isNew || ++checks % checksPerScan === 0) onChange()
    }
    void attach()
    this.#timers[0] = setInterval(() => void attach(), checkIntervalMs).unref()
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers = []
    this.#changed = undefined
    this.#watcher?.watcher.close()
    this.#watcher = undefined
  }

  async #names(): Promise<readonly string[]> {
    const names = await readdir(this.path).catch(() => [])
    const wanted = (name: string) =>
      !name.startsWith('.') && this.#reading.extensions.includes(extname(name).toLowerCase())
    return names.filter(wanted).sort()
  }

  async #check(file: string, before: FileState<T> | undefined): Promise<FileState<T> | undefined> {
    let stats: BigIntStats
    try {
      stats = await stat(file, { bigint: true })
    } catch (error) {
      return refused(file, error, before)
    }
    const signature = signatureOf(stats)
    if (before?.signature === signature) return before
    // For example, the read of a named pipe would wait forever.
    if (!stats.isFile()) return { signature, file, reason: 'It is not a file.' }
    if (stats.size > this.#reading.maxFileBytes) {
      return { signature, file, reason: `It is larger than ${this.#reading.maxFileBytes} bytes.` }
    }
    try {
      // The signature was taken before the read. If the file changes during the read, the next scan reads the file again.
      return { signature, file, value: await this.#reading.read(await readFile(file), file) }
    } catch (error) {
      if (await this.#isBeingWritten(file, signature)) {
        this.#changed?.()
        return before
      }
      // A file that is not a card is read again only after a change. If the system refused the read, or the file had to wait too
      // long for its slices of the event loop, the next scan reads the file again.
      return isPassing(error) ? refused(file, error, before) : { signature, file, reason: reasonOf(error) }
    }
  }

  /** Whether a file has changed since it had this signature, or changed so recently that a program may still write to it. */
  async #isBeingWritten(file: string, signature: string): Promise<boolean> {
    const stats = await stat(file, { bigint: true }).catch(() => undefined)
    if (!stats || signatureOf(stats) !== signature) return true
    // The absolute difference is compared: a modification time in the far future does not count as recent.
    return Math.abs(this.#reading.now() - Number(stats.mtimeMs)) < settledMs
  }

  /**
   * Checks whether the folder was made, removed or replaced since the last check, and watches the new folder.
   * @returns whether the folder must be scanned; false also if the system cannot watch it
   */
  async #attach(changed: () => void): Promise<boolean> {
    const stats = await stat(this.path, { bigint: true }).catch(() => undefined)
    // A new folder may get the inode number of the removed one, so the time of its creation is compared too.
    const folder = stats?.isDirectory() ? `${stats.ino}:${stats.birthtimeNs}` : undefined
    if (this.#timers.length === 0 || folder === this.#watcher?.folder) return false
    this.#watcher?.watcher.close()
    this.#watcher = undefined
    if (folder === undefined) return true
    try {
      const watcher = watch(this.path, { persistent: false }, changed)
      watcher.on('error', () => {
        watcher.close()
        this.#watcher = undefined
      })
      this.#watcher = { watcher, folder }
    } catch {
      // The system has no watches left. The scans at intervals find changes, and each check tries to watch again.
      return false
    }
    return true
  }
}

function signatureOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [ino, size, mtimeNs, ctimeNs].join(':')
}

/** The state of a file that could not be read now. Its empty signature makes each scan read the file again. */
function refused<T>(file: string, error: unknown, before: FileState<T> | undefined): FileState<T> {
  const reason = reasonOf(error)
  return before && 'reason' in before && before.reason === reason ? before : { signature: '', file, reason }
}

/** Whether an error may be temporary, so that the next scan reads the file again. */
function isPassing(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 500
  return error instanceof Error && 'syscall' in error
}

/** The reason why a file is not read: a fault of its content, an error of the system (no permission), or a bug of the service. */
function reasonOf(error: unknown): string {
  if (error instanceof ApiError) return error.message
  if (error instanceof Error && 'code' in error) return `It cannot be read (${error.code}).`
  // An unexpected error in one file must not stop the scan of the other files.
  return 'It cannot be read because of an unexpected error.'
}

/** The path of a folder without symbolic links, so that a folder with two paths is read once. */
export function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}
