import { ApiError } from '../../src/errors.ts'
import { spend } from '../../src/work/fuel.ts'
import { defineJob } from '../../src/work/job.ts'
import { cachedInThread } from '../../src/work/thread-cache.ts'

/** Jobs for the tests of this folder. A worker imports this file. */
const url = import.meta.url

export const echoJob = defineJob(url, 'echoJob', (input: unknown) => input)

/** Waits until the test opens the gate. It takes no CPU time. */
export const gateJob = defineJob(url, 'gateJob', (gate: Int32Array<SharedArrayBuffer>) => Atomics.wait(gate, 0, 0))

/** A gate for `gateJob`, and a function that opens it. */
export function gate(): { readonly gate: Int32Array<SharedArrayBuffer>; open(): void } {
  const shared = new Int32Array(new SharedArrayBuffer(4))
  return {
    gate: shared,
    open() {
      Atomics.store(shared, 0, 1)
      Atomics.notify(shared, 0)
    },
  }
}

export const spinJob = defineJob(url, 'spinJob', (_: undefined): never => {
  for (;;);
})

/** Takes memory in calls of V8's own code, which abort the process at V8's limit. */
export const bombJob = defineJob(url, 'bombJob', (text: string): never => {
  const all: string[][] = []
  for (;;) all.push(text.repeat(100_000).split(','))
})

export const exitJob = defineJob(url, 'exitJob', (_: undefined) => process.exit(3))

/** Spends units one by one, and gives their number. */
export const spendJob = defineJob(url, 'spendJob', (units: number) => {
  for (let unit = 0; unit < units; unit++) spend(1)
  return units
})

/** Spends many units at once. */
export const costlyJob = defineJob(url, 'costlyJob', (units: number) => {
  spend(units)
  return units
})

class OwnError extends ApiError {
  constructor() {
    const cause = new TypeError('inner', { cause: 'innermost' })
    super(413, 'card_too_large', 'Send less.', { param: 'card', headers: { 'x-own': '1' }, cause })
    this.name = 'OwnError'
  }
}

const failures = {
  api: () => new OwnError(),
  plain: () => new RangeError('broken', { cause: new Error('because') }),
  text: () => 'only a text',
}

export const failJob = defineJob(url, 'failJob', (kind: keyof typeof failures): never => {
  throw failures[kind]()
})

export const uncloneableJob = defineJob(url, 'uncloneableJob', (_: undefined) => () => {})

/** Adds one to each byte of the input itself, as only shared memory can show. */
export const addJob = defineJob(url, 'addJob', ({ bytes }: { readonly bytes: Uint8Array }) => {
  for (const index of bytes.keys()) bytes[index] = (bytes[index] ?? 0) + 1
  return bytes.length
})

let transferred = new Uint8Array()

/** Gives bytes that move to the main thread. */
export const transferJob = defineJob(
  url,
  'transferJob',
  (length: number) => {
    transferred = new Uint8Array(length).fill(7)
    return { bytes: transferred, other: 'value' }
  },
  ({ bytes }) => [bytes.buffer],
)

/** The length of the array of `transferJob`, in the thread that made it: 0 after the transfer. */
export const leftJob = defineJob(url, 'leftJob', (_: undefined) => transferred.length)

let made = 0

/** How often the value of a digest has been made in this thread. */
export const cacheJob = defineJob(url, 'cacheJob', (digest: string) =>
  cachedInThread(
    'count',
    digest,
    () => ++made,
    () => 1,
  ),
)

// Not under its own name.
export const renamedJob = defineJob(url, 'otherName', () => 1)
