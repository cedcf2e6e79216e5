import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Database } from 'better-sqlite3'
import { type Clock, type Timer, unrefClock } from '../clock.ts'
import type { Metric } from '../instruments.ts'
import { realPathOf } from './rights.ts'
import { refreshSnapshots } from './snapshots.ts'

/** The intervals of the checks of the log's size: normally, and while a reader blocks the truncation of the log. */
const checkIntervalMs = 1000
const blockedIntervalMs = 5000
/** A log above `largeBytes` is truncated. SQLite cuts the file to `keptLogBytes` when it restarts the log. */
const largeBytes = 16_000_000
export const keptLogBytes = 8_000_000
/** The most pages that the serving thread checkpoints when it truncates a large log. These pages take some milliseconds. */
const maxPages = 500
/** The number of pages in the log at which a commit checkpoints the log. This is SQLite's default. */
export const automaticPages = 1000

/**
 * The row of `PRAGMA wal_checkpoint` (sqlite.org/pragma.html#pragma_wal_checkpoint): the number of pages in the log, and how
 * many of these pages are in the database file.
 */
export interface Checkpointed {
  readonly busy: number
  readonly log: number
  readonly checkpointed: number
}

/**
 * Keeps the write-ahead log of a database small. A reader of an older snapshot keeps SQLite from restarting the log. After a
 * long read the log is large, and one commit on the serving thread would checkpoint the whole log. So another thread checkpoints
 * a large log.
 */
export class WalCheckpointer {
  readonly #database: Database
  readonly #logPath: string
  readonly #checkpoint: (path: string) => Promise<Checkpointed>
  #timer: Timer | undefined
  #isOver = false
  readonly metric: Metric

  /** @param checkpoint runs a passive checkpoint on another thread: it copies as many pages as the readers allow */
  constructor(database: Database, checkpoint = checkpointOnThread) {
    this.#database = database
    this.#logPath = `${realPathOf(database.name)}-wal`
    this.#checkpoint = checkpoint
    this.metric = {
      name: 'conservatory_wal_bytes',
      help: 'Bytes of the write-ahead log beside the SQLite file. It grows while a reader keeps an older snapshot open.',
      type: 'gauge',
      samples: () => [{ value: this.#bytes() }],
    }
  }

  /** Begins the checks. */
  begin(clock: Clock = unrefClock): void {
    const next = (waitMs: number): void => {
      if (this.#isOver) return
      this.#timer = clock.setTimeout(() => void this.#keepSmall().then(next), waitMs)
    }
    next(checkIntervalMs)
  }

  stop(): void {
    this.#isOver = true
    this.#timer?.close()
  }

  /** Checkpoints and truncates a large log. @returns the milliseconds until the next check */
  async #keepSmall(): Promise<number> {
    if (this.#bytes() <= largeBytes) return checkIntervalMs
    this.#database.pragma('wal_autocheckpoint = 0')
    refreshSnapshots(this.#database.name)
    // A checkpoint fails on a full disk, for example. The pages are safe in the log, and the next check tries again.
    const done = await this.#checkpoint(this.#database.name).catch(() => undefined)
    if (this.#isOver || !done || done.log - done.checkpointed > maxPages) return blockedIntervalMs
    // The rest happens in one turn of the event loop, so no list of this process reads before the truncation.
    refreshSnapshots(this.#database.name)
    const waitMs = this.#database.pragma('busy_timeout', { simple: true })
    try {
      this.#database.pragma('busy_timeout = 0')
      this.#database.pragma('wal_checkpoint(TRUNCATE)')
      if (this.#bytes() > largeBytes) return blockedIntervalMs
      this.#database.pragma(`wal_autocheckpoint = ${automaticPages}`)
      return checkIntervalMs
    } catch {
      return blockedIntervalMs
    } finally {
      this.#database.pragma(`busy_timeout = ${waitMs}`)
    }
  }

  #bytes(): number {
    return statSync(this.#logPath, { throwIfNoEntry: false })?.size ?? 0
  }
}

function checkpointOnThread(path: string): Promise<Checkpointed> {
  return new Promise((resolve, reject) => {
    // The worker has the extension of this file: `.ts` in the sources, `.js` in the package.
    const file = new URL(`./checkpoint${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: path })
    worker.unref()
    worker.once('message', resolve).once('error', reject)
    worker.once('exit', () => reject(new Error('the checkpoint has ended without an answer')))
  })
}
