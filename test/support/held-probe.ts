import { PerformanceObserver, performance } from 'node:perf_hooks'

/*
 * Loaded into a service with --import: measures for how long the main thread blocks the event loop, by its own CPU time,
 * so that a busy machine changes nothing. It reads the clock at most each millisecond, once in a turn of the loop: the excess
 * of a turn is a stretch. Garbage collections in a stretch are counted separately. On
 * SIGWINCH it writes one line to stderr, and resets.
 */

/** The report of the probe, in CPU milliseconds since the last report. */
export interface Held {
  /** The longest stretch, without the collections in it. */
  readonly work: number
  /** The longest collections in one stretch. */
  readonly collections: number
  /** All CPU time of the main thread. */
  readonly total: number
}

/** One stretch: its CPU milliseconds, and its ends by the clock. */
interface Stretch {
  readonly cpu: number
  readonly from: number
  readonly to: number
}

/** The minimum milliseconds of a recorded stretch. */
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

/** The part of a stretch that was collections. Their time is wall-clock time, of which less is CPU time on a busy machine. */
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
  // Node reports collections one turn later.
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
