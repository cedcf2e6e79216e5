import { PerformanceObserver, performance } from 'node:perf_hooks'

/*
 * Loaded into a service with --import: measures for how long the main thread holds the event loop, by its own CPU time,
 * so that a busy machine changes nothing. It asks the clock each millisecond at most, once in a turn of the loop: what a
 * turn takes beyond that is the stretch. Collections of garbage in a stretch are told apart. On
 * SIGWINCH it writes one line to stderr, and begins anew.
 */

/** What the probe tells, in CPU milliseconds since it was asked last. */
export interface Held {
  /** The longest stretch without the collections in it. */
  readonly work: number
  /** The most that collections took of one stretch. */
  readonly collections: number
  /** All that the main thread did. */
  readonly total: number
}

/** One stretch: its CPU milliseconds, and its ends by the clock. */
interface Stretch {
  readonly cpu: number
  readonly from: number
  readonly to: number
}

/** Milliseconds of a stretch that is worth keeping. */
const worthKeeping = 5

const cpu = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

let begin = cpu()
let last = begin
let lastLook = performance.now()
let stretches: Stretch[] = []
let collections: { readonly startTime: number; readonly duration: number }[] = []

function look(): void {
  const now = cpu()
  const time = performance.now()
  if (now - last >= worthKeeping) stretches.push({ cpu: now - last, from: lastLook, to: time })
  last = now
  lastLook = time
}

/** How much of a stretch was collections. Theirs is a time by the clock: on a busy machine less of it is CPU time. */
function collectedIn({ cpu, from, to }: Stretch): number {
  let sum = 0
  for (const { startTime, duration } of collections) {
    sum += Math.max(0, Math.min(to, startTime + duration) - Math.max(from, startTime))
  }
  return sum * Math.min(1, cpu / (to - from))
}

new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) collections.push({ startTime, duration })
}).observe({ entryTypes: ['gc'] })

setInterval(look, 1).unref()

process.on('SIGWINCH', () => {
  look()
  // Collections are told a turn later.
  setTimeout(() => {
    look()
    let work = 0
    let most = 0
    for (const stretch of stretches) {
      const collected = collectedIn(stretch)
      work = Math.max(work, stretch.cpu - collected)
      most = Math.max(most, collected)
    }
    const held: Held = { work, collections: most, total: last - begin }
    process.stderr.write(`held ${JSON.stringify(held)}\n`)
    stretches = []
    collections = []
    begin = cpu()
    last = begin
  }, 20)
})
