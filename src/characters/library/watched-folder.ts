import { type BigIntStats, type FSWatcher, realpathSync, watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join, resolve } from 'node:path'
import { ApiError } from '../../errors.ts'

/** A file of a watched folder, and what was made of it. */
export interface FolderFile<T> {
  readonly file: string
  readonly value: T
}

/** A file of a watched folder that nothing could be made of. */
export interface UnreadableFile {
  readonly file: string
  readonly reason: string
}

/** A file as it was when it was looked at; its signature changes whenever it is written or replaced. */
type Seen<T> = { readonly signature: string } & (FolderFile<T> | UnreadableFile)

/** Which files of a folder are read, and how. */
export interface FolderReading<T> {
  /** Lower-case, with the dot. */
  readonly extensions: readonly string[]
  /** Bytes; larger files are not even opened. */
  readonly maxFileBytes: number
  /** @throws CardError when it is none of what is looked for */
  readonly read: (bytes: Buffer, file: string) => T | Promise<T>
  /** The time that files' times are compared with, in milliseconds: the machine's clock. */
  readonly now: () => number
}

/** Milliseconds without news after which a folder is read again. */
const quiet = 250
/** Milliseconds since the last write after which a file that cannot be read is a fault: until then it may be half written. */
const settled = 2000
/** Milliseconds between looks at whether the folder is still, or at last, there. */
const look = 2000
/** How many of those pass before all is read again: some mounts tell of no change. */
const looksPerScan = 15

/** The files of one folder, each read when it is new or has changed. A folder that is not there has none. */
export class WatchedFolder<T> {
  readonly path: string
  readonly #reading: FolderReading<T>
  #seen: ReadonlyMap<string, Seen<T>> = new Map()
  #watcher: { readonly watcher: FSWatcher; readonly folder: string } | undefined
  #timers: NodeJS.Timeout[] = []
  /** Has the folder read again a little later, while it is watched. */
  #changed: (() => void) | undefined

  constructor(path: string, reading: FolderReading<T>) {
    this.path = path
    this.#reading = reading
  }

  /** What could be read, in the order of the files' names. */
  get files(): readonly FolderFile<T>[] {
    return [...this.#seen.values()].filter((seen) => 'value' in seen)
  }

  get unreadable(): readonly UnreadableFile[] {
    return [...this.#seen.values()].filter((seen) => 'reason' in seen)
  }

  /**
   * Reads what is new or has changed, and forgets what is gone; tells whether there was anything of the kind. A file that
   * cannot be read and is perhaps being written stays as it was, and is looked at again while the folder is watched.
   */
  async scan(): Promise<boolean> {
    const before = this.#seen
    const after = new Map<string, Seen<T>>()
    for (const name of await this.#names()) {
      const file = join(this.path, name)
      const seen = await this.#look(file, before.get(file))
      if (seen) after.set(file, seen)
    }
    this.#seen = after
    return after.size !== before.size || [...after].some(([file, seen]) => before.get(file) !== seen)
  }

  /** Calls back, a little later, whenever the folder may have changed, until `close`. */
  watch(onChange: () => void): void {
    const changed = () => {
      clearTimeout(this.#timers[1])
      this.#timers[1] = setTimeout(onChange, quiet).unref()
    }
    this.#changed = changed
    let looks = 0
    const attach = async () => {
      const isNew = await this.#attach(changed)
      if (isNew || ++looks % looksPerScan === 0) onChange()
    }
    void attach()
    this.#timers[0] = setInterval(() => void attach(), look).unref()
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

  async #look(file: string, before: Seen<T> | undefined): Promise<Seen<T> | undefined> {
    let stats: BigIntStats
    try {
      stats = await stat(file, { bigint: true })
    } catch (error) {
      return refused(file, error, before)
    }
    const signature = signatureOf(stats)
    if (before?.signature === signature) return before
    // Opening a pipe would wait for ever.
    if (!stats.isFile()) return { signature, file, reason: 'It is not a file.' }
    if (stats.size > this.#reading.maxFileBytes) {
      return { signature, file, reason: `It is larger than ${this.#reading.maxFileBytes} bytes.` }
    }
    try {
      // With the signature from before the reading, what changed during it is found the next time.
      return { signature, file, value: await this.#reading.read(await readFile(file), file) }
    } catch (error) {
      if (await this.#isBeingWritten(file, signature)) {
        this.#changed?.()
        return before
      }
      // A file that is no card stays none until it changes; what the system refuses once it may give the next time.
      const isRefused = error instanceof Error && 'syscall' in error
      return isRefused ? refused(file, error, before) : { signature, file, reason: reasonOf(error) }
    }
  }

  /** Whether a file has changed since it had this signature, or so lately that more may come. */
  async #isBeingWritten(file: string, signature: string): Promise<boolean> {
    const stats = await stat(file, { bigint: true }).catch(() => undefined)
    if (!stats || signatureOf(stats) !== signature) return true
    // The file system's clock may be far from this one, in either direction.
    return Math.abs(this.#reading.now() - Number(stats.mtimeMs)) < settled
  }

  /** Makes sure that the folder which is there now is the one that is watched; tells whether that is news. */
  async #attach(changed: () => void): Promise<boolean> {
    const stats = await stat(this.path, { bigint: true }).catch(() => undefined)
    // A folder that is made again may get the number of the one that was removed.
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
      // The system has no watches left to give: the regular looks must do.
      return false
    }
    return true
  }
}

function signatureOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [ino, size, mtimeNs, ctimeNs].join(':')
}

/** A file that the system refused, which is looked at again with each scan. */
function refused<T>(file: string, error: unknown, before: Seen<T> | undefined): Seen<T> {
  const reason = reasonOf(error)
  return before && 'reason' in before && before.reason === reason ? before : { signature: '', file, reason }
}

/** Why a file is not read: the card's fault, the system's refusal (no permission, a broken link), or a fault of ours. */
function reasonOf(error: unknown): string {
  if (error instanceof ApiError) return error.message
  if (error instanceof Error && 'code' in error) return `It cannot be read (${error.code}).`
  // One file must not keep the others from being read.
  return 'It cannot be read: reading it fails in a way that nobody planned for.'
}

/** Where a folder really is, so that one with two names is read once. */
export function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return resolve(path)
  }
}
