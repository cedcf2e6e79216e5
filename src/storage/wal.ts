import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Database } from 'better-sqlite3'
import { type Alarm, type Clock, quietClock } from '../clock.ts'
import type { Metric } from '../instruments.ts'
import { refreshSnapshots } from './snapshots.ts'

/** Milliseconds between two looks at the log's size, and until the next one where a reader keeps it from being emptied. */
const lookMs = 1000
const retryMs = 5000
/** Bytes above which the log is emptied, and to which SQLite cuts the file when it begins the log anew. */
const largeBytes = 16_000_000
export const keptLogBytes = 8_000_000
/** Pages that this thread may bring from the log into the file: some milliseconds. */
const mostPages = 500
/** SQLite's own number of pages in the log from which a commit brings them into the file. */
export const automaticPages = 1000

/** What SQLite answers to a checkpoint (sqlite.org/pragma.html#pragma_wal_checkpoint): pages in the log, and of them in the file. */
export interface Checkpointed {
  readonly busy: number
  readonly log: number
  readonly checkpointed: number
}

/**
 * Keeps the log beside a database file small while a service writes. A reader of an older moment keeps SQLite from
 * beginning the log anew, and one that has been long there leaves a large one, whose pages would then be brought into
 * the file by one commit, on the thread that serves. Of a large log another thread does that.
 */
export class WalCheckpointer {
  readonly #database: Database
  readonly #look: (path: string) => Promise<Checkpointed>
  #alarm: Alarm | undefined
  #isOver = false
  readonly metric: Metric

  /** @param look brings the pages of the log into the file on another thread, as far as no reader keeps it from that */
  constructor(database: Database, look = checkpointElsewhere) {
    this.#database = database
    this.#look = look
    this.metric = {
      name: 'conservatory_wal_bytes',
      help: 'Bytes of the log beside the SQLite file; what is written while somebody reads an older moment adds to it.',
      type: 'gauge',
      samples: () => [{ value: this.#bytes() }],
    }
  }

  /** Begins to look at the log. */
  begin(clock: Clock = quietClock): void {
    const next = (wait: number): void => {
      if (this.#isOver) return
      this.#alarm = clock.setTimeout(() => void this.#keepSmall().then(next), wait)
    }
    next(lookMs)
  }

  stop(): void {
    this.#isOver = true
    this.#alarm?.close()
  }

  /** @returns the milliseconds until the next look */
  async #keepSmall(): Promise<number> {
    if (this.#bytes() <= largeBytes) return lookMs
    this.#database.pragma('wal_autocheckpoint = 0')
    refreshSnapshots(this.#database.name)
    // It fails where the disk is full, say: what waits in the log is safe there, and the next look comes.
    const done = await this.#look(this.#database.name).catch(() => undefined)
    if (this.#isOver || !done || done.log - done.checkpointed > mostPages) return retryMs
    // From here on in one turn, in which no list of ours reads.
    refreshSnapshots(this.#database.name)
    const wait = this.#database.pragma('busy_timeout', { simple: true })
    try {
      this.#database.pragma('busy_timeout = 0')
      this.#database.pragma('wal_checkpoint(TRUNCATE)')
      if (this.#bytes() > largeBytes) return retryMs
      this.#database.pragma(`wal_autocheckpoint = ${automaticPages}`)
      return lookMs
    } catch {
      return retryMs
    } finally {
      this.#database.pragma(`busy_timeout = ${wait}`)
    }
  }

  #bytes(): number {
    return statSync(`${this.#database.name}-wal`, { throwIfNoEntry: false })?.size ?? 0
  }
}

/** Brings pages from the log of a database into its file, on a thread of its own. */
function checkpointElsewhere(path: string): Promise<Checkpointed> {
  return new Promise((resolve, reject) => {
    // Its ending is this file's own: the package holds plain JavaScript.
    const file = new URL(`./checkpoint${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(file, { workerData: path })
    worker.unref()
    worker.once('message', resolve).once('error', reject)
    worker.once('exit', () => reject(new Error('the checkpoint has ended without an answer')))
  })
}
