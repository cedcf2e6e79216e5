/**
 * A pure function that runs in the thread of the request or in a worker. It may run again from the same input, so it changes
 * neither its input nor anything outside.
 *
 * The input and the output are plain data and bytes, which a worker gets as structured clones. A `Buffer` arrives as a plain
 * `Uint8Array`, so the types of a job name bytes `Uint8Array`; `Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)` gives
 * the same bytes as a `Buffer`. Bytes over a `SharedArrayBuffer` are not copied.
 *
 * A native call cannot be ended, and aborts the process if it allocates about a gigabyte. So a job bounds what it gives to
 * `JSON.parse`, `split` and the like, or reads with a loop that spends units.
 */
export interface Job<Input, Output> {
  /** The URL of the module that exports the job. */
  readonly module: string
  /** The name under which the module exports the job. */
  readonly name: string
  readonly run: (input: Input) => Output
  /** Makes the input that a worker gets, if a structured clone would not take the input as it is. */
  readonly pack?: (input: Input) => Input
  /** The buffers of an output that move to the main thread without a copy. The job has allocated each of them for itself. */
  readonly transfers?: (output: Output) => readonly ArrayBuffer[]
}

/**
 * Defines a job, which its module must export under this name: a worker imports the module when the job first runs there.
 * `export const composeJob = defineJob(import.meta.url, 'composeJob', compose)`
 */
export function defineJob<Input, Output>(
  module: string,
  name: string,
  run: (input: Input) => Output,
  transfers: (output: Output) => readonly ArrayBuffer[] = () => [],
): Job<Input, Output> {
  return { module, name, run, transfers }
}
