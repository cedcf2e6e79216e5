import { parentPort } from 'node:worker_threads'
import { type CrossingError, packError } from './crossing-error.ts'
import { maxUnits, withFuel } from './fuel.ts'
import type { Job } from './job.ts'

/*
 * The entry of a worker thread (job-thread.ts). It runs one job at a time, and loads the module of a job when the job first runs.
 */

/** A job that the main thread sends. */
export interface JobCall {
  readonly module: string
  readonly name: string
  readonly input: unknown
}

/** What the worker sends back: first that the job has begun, then its end. */
export type WorkerMessage =
  | {
      readonly kind: 'began'
      /** The CPU time of this thread so far, in milliseconds, without the job. */
      readonly cpuMs: number
    }
  | JobAnswer

/** The end of a job that has run. */
export type JobAnswer =
  | { readonly kind: 'output'; readonly output: unknown }
  | { readonly kind: 'error'; readonly error: CrossingError }

const port = parentPort
port?.on('message', (call: JobCall) => void answer(call))

async function answer({ module, name, input }: JobCall): Promise<void> {
  try {
    const exported: Readonly<Record<string, unknown>> = await import(module)
    const job = exported[name]
    if (!isJob(job)) throw new Error(`${module} exports no job "${name}"`)
    const { user, system } = process.threadCpuUsage()
    send({ kind: 'began', cpuMs: (user + system) / 1000 })
    const output = withFuel(maxUnits, () => job.run(input))
    send({ kind: 'output', output }, job.transfers?.(output))
  } catch (error) {
    send({ kind: 'error', error: packError(error) })
  }
}

function send(message: WorkerMessage, transfers: readonly ArrayBuffer[] = []): void {
  port?.postMessage(message, [...transfers])
}

function isJob(value: unknown): value is Job<unknown, unknown> {
  return typeof value === 'object' && value !== null && 'run' in value && typeof value.run === 'function'
}
