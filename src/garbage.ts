import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Clock, unrefClock } from './clock.ts'

/**
 * Waits until the next check. The first wait is the usual one. After each collection in a row the next wait follows, because
 * the memory that is left may be in use. A large card is cached for 30 s, and its memory is released within a minute.
 */
const waitsMs = [5000, 10_000, 20_000, 20_000, 20_000, 20_000]

/** A collection needs an event loop that was busy for at most this share of the time, because it delays requests. */
const maxBusyShare = 0.05

/** So much more memory than usual is worth a collection; so much more than after the last collection is another burst. */
const minGrowthBytes = 32 * 1024 ** 2

/** The process whose memory is released. */
export interface MemoryUser {
  /** The resident set size, in bytes. */
  residentBytes(): number
  /** The busy share of the event loop since the last call, from 0 to 1. */
  busyShare(): number
  /** Collects all garbage, which releases its memory to the system. */
  collect(): void
}

/**
 * The garbage that V8 may add to a large heap before it collects, in percent of the memory in use. Without a bound V8 lets a
 * heap of 100 MB grow to four times that on a machine with much memory, whatever the requests hold.
 */
const maxGarbagePercent = 40

/** A smaller heap grows as V8 decides: with the bound, V8 collected a heap of 30 MB ten times in four seconds of load. */
const largeHeapBytes = 80 * 1024 ** 2

/** The interval between two readings of the heap's size. */
const heapCheckIntervalMs = 250

/** V8's heap. */
interface Heap {
  usedBytes(): number
  /** Sets by how many percent the heap may grow beyond the memory in use after a collection. */
  setGrowth(percent: number): void
}

const thisHeap: Heap = {
  usedBytes: () => getHeapStatistics().used_heap_size,
  setGrowth: (percent) => setFlagsFromString(`--heap-growing-percent=${percent}`),
}

/**
 * Bounds the garbage in a large heap while the process runs (docs/decisions/0023-bytes-in-flight.md). V8 has one growth factor
 * for all sizes, and reads it at the end of each collection; so the factor follows the size.
 */
export function boundGarbage(clock: Clock = unrefClock, heap: Heap = thisHeap): void {
  let isBounded = false
  const check = () => {
    const isLarge = heap.usedBytes() >= largeHeapBytes
    // Zero leaves the factor to V8.
    if (isLarge !== isBounded) heap.setGrowth(isLarge ? maxGarbagePercent : 0)
    isBounded = isLarge
    clock.setTimeout(check, heapCheckIntervalMs)
  }
  check()
}

/**
 * Lets V8 make all objects in the new space. By default V8 makes objects in the old space if earlier objects of the same code
 * lived long. The first requests live long, because they wait for connections and for compiled code. Then each later request
 * leaves garbage in the old space, which keeps the rest of the request in memory too, and costs CPU time
 * (docs/decisions/0023-bytes-in-flight.md).
 */
export function keepNewObjectsApart(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * Releases memory to the system while the process is idle. V8 collects no garbage while nothing is allocated, and would
 * keep hundreds of megabytes after a burst of requests (docs/decisions/0023-bytes-in-flight.md). The checks go on until
 * the process ends, and do not keep it alive.
 */
export function releaseIdleMemory(clock: Clock = unrefClock, user: MemoryUser = thisProcess()): void {
  let usualBytes = user.residentBytes()
  let leftBytes = usualBytes
  let collections = 0
  const schedule = () => void clock.setTimeout(check, waitsMs[collections] ?? 0)
  const check = () => {
    const isIdle = user.busyShare() <= maxBusyShare
    const residentBytes = user.residentBytes()
    // Another burst has come since the last collection, so the waits begin again: its caches need their full time.
    if (residentBytes - leftBytes > minGrowthBytes) collections = 0
    if (isIdle && residentBytes - usualBytes > minGrowthBytes) {
      user.collect()
      leftBytes = user.residentBytes()
      const isLast = collections === waitsMs.length - 1
      // Memory that remains after several collections is in use.
      usualBytes = isLast ? leftBytes : Math.min(usualBytes, leftBytes)
      collections = isLast ? 0 : collections + 1
    } else collections = 0
    schedule()
  }
  schedule()
}

/** This process. */
export function thisProcess(): MemoryUser {
  let before = performance.eventLoopUtilization()
  return {
    residentBytes: () => process.memoryUsage.rss(),
    busyShare() {
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, before)
      before = now
      return utilization
    },
    collect: collectGarbage,
  }
}

/** Collects all garbage, which takes some tens of milliseconds. V8 offers this only behind a flag. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
}
