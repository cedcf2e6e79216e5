import { PerformanceObserver, performance } from 'node:perf_hooks'

/*
 * Loaded into a service with --import: measures for how long the main thread blocks the event loop. It measures the CPU time of
 * that thread, because CPU time does not depend on other load of the machine. A timer of a millisecond reads the CPU time once
 * in a turn of the loop. A stretch is the time between two readings. Garbage collections in a stretch are counted separately.
 * On SIGWINCH the probe writes one line to stderr, and begins a new measurement.
 */

/** The report of the probe, in CPU milliseconds since the last report. */
export interface Held {
  /** The longest stretch, without its garbage collections. */
  readonly work: number
  /** The longest time of garbage collections in one stretch. */
  readonly collections: number
  /** All CPU time of the main thread. */
  readonly total: number
}

/** The time between two readings: its CPU milliseconds, and its beginning and end by the clock. */
interface Stretch {
  readonly cpu: number
  readonly from: number
  readonly to: number
}

/** Shorter stretches, in CPU milliseconds, are not recorded. */
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

/** The CPU time of collections in a stretch: the wall-clock time that Node reports, times the stretch's share of CPU time. */
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
  // Node reports a collection in a later turn of the event loop.
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
