import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock, Timer } from '../clock.ts'
import { packError } from './crossing-error.ts'
import type { JobAnswer, JobCall, WorkerMessage } from './worker.ts'

/** The interval between two readings of a worker's CPU time and memory, while a job runs. */
const checkIntervalMs = 50

/**
 * The room above `maxBytes` until V8's own limit. V8 aborts the whole process if one native call, such as `JSON.parse` or `split`,
 * allocates beyond the limit: `resourceLimits` ends only JavaScript in time. So the pool ends a worker at `maxBytes`, and the room
 * lets a native call end first: `JSON.parse` of 64 MB of small objects fits. With a limit below 2 GiB, V8 also lets less garbage
 * accumulate.
 */
const roomMb = 768

/** The bounds of one job. */
export interface JobBounds {
  /** CPU time of the worker, without the time in which it starts and loads modules. */
  readonly maxCpuMs: number
  /** Memory of the worker: its heap with garbage, and its buffers. */
  readonly maxBytes: number
}

/** How a job ended: with its answer, at one of its bounds, or because its thread died or did not start. */
export type JobEnd = JobAnswer | { readonly kind: 'time' | 'memory' } | ThreadDeath

interface ThreadDeath {
  readonly kind: 'died' | 'not_started'
  readonly error: unknown
}

interface RunningJob {
  readonly bounds: JobBounds
  readonly finish: (end: JobEnd) => void
  /** The CPU time of the thread when the job began. */
  startCpuMs: number
  timer?: Timer
}

/**
 * A worker thread that runs one job at a time. Figures of a study on two noisy cores, with all modules of the service: the first
 * thread starts from the sources in 178 ms, the next in 142 ms; an idle one takes 30 MB; a spinning one ends in 5 ms.
 */
export class JobThread {
  readonly #clock: Clock
  readonly #worker: Worker
  #job: RunningJob | undefined
  #hasStarted = false
  #isOver = false

  /** @throws Error if the system starts no thread */
  constructor(clock: Clock, maxBytes: number) {
    this.#clock = clock
    const cache = getCompileCacheDir()
    // The worker has the extension of this file: `.ts` in the sources, `.js` in the package.
    this.#worker = new Worker(new URL(`./worker${extname(import.meta.url)}`, import.meta.url), {
      // A worker does not inherit the compile cache, and needs no other setting. Node adds a folder for its version to the path.
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      resourceLimits: { maxOldGenerationSizeMb: maxBytes / 1024 ** 2 + roomMb },
    })
    this.#worker.once('online', () => {
      this.#hasStarted = true
    })
    this.#worker.on('message', (message: WorkerMessage) => this.#take(message))
    this.#worker.once('messageerror', (error) => this.#die(error))
    this.#worker.once('error', (error) => this.#die(error))
    this.#worker.once('exit', (code) => this.#die(new Error(`the worker has ended with code ${code}`)))
    this.#worker.unref()
  }

  /** Whether the thread has ended or is about to end. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Runs a job. After a job that did not answer, the caller closes the thread. */
  run(call: JobCall, bounds: JobBounds): Promise<JobEnd> {
    return new Promise((resolve) => {
      const finish = (end: JobEnd): void => {
        this.#job?.timer?.close()
        this.#job = undefined
        this.#worker.unref()
        resolve(end)
      }
      this.#job = { bounds, finish, startCpuMs: 0 }
      this.#worker.ref()
      try {
        this.#worker.postMessage(call)
      } catch (error) {
        // The input is no plain data.
        finish({ kind: 'error', error: packError(error) })
      }
    })
  }

  /** Ends the thread. Resolves when it has ended. A native call in the thread ends first. */
  async close(): Promise<void> {
    this.#isOver = true
    await this.#worker.terminate()
  }

  #take(message: WorkerMessage): void {
    const job = this.#job
    if (message.kind !== 'began') job?.finish(message)
    else if (job) {
      job.startCpuMs = message.cpuMs
      job.timer = this.#clock.setTimeout(() => void this.#check(job), checkIntervalMs)
    }
  }

  async #check(job: RunningJob): Promise<void> {
    // Both readings interrupt JavaScript. During a native call they wait until the call ends.
    const readings = Promise.all([this.#worker.cpuUsage(), this.#worker.getHeapStatistics()])
    // Without readings the thread has ended, and its events finish the job.
    const found = await readings.catch(() => undefined)
    if (!found || this.#job !== job) return
    const [{ user, system }, { used_heap_size, external_memory }] = found
    if (used_heap_size + external_memory > job.bounds.maxBytes) job.finish({ kind: 'memory' })
    else if ((user + system) / 1000 - job.startCpuMs > job.bounds.maxCpuMs) job.finish({ kind: 'time' })
    else job.timer?.refresh()
  }

  #die(error: unknown): void {
    this.#isOver = true
    this.#job?.finish({ kind: this.#hasStarted ? 'died' : 'not_started', error })
  }
}
