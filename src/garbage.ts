import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Clock, unrefClock } from './clock.ts'

/** The time between two checks. */
const checkMs = 5000

/**
 * The idle time before the first collection, and before each further collection in a row. A collection also clears optimized code
 * of V8, so the next thousand requests cost up to three times as much CPU time. So the first collection waits until the process
 * has been idle for long. A large card is cached for 30 s, and its memory is released within a minute. The last waits are long,
 * because the remaining memory may be in use.
 */
const waitsMs = [25_000, 10_000, 10_000, 20_000, 20_000, 20_000]
/** The most checks in one of these times. */
const maxChecks = Math.max(...waitsMs) / checkMs

/**
 * A collection delays requests. So there is one only if the main thread used a core for at most this share of the idle time. An
 * idle service uses 1 % of a core, and up to 6 % in some checks if other processes use the machine.
 */
const maxBusyShare = 0.05

/**
 * Growth above the usual memory by more than this starts a collection. Growth after a collection by more than this is a new
 * burst.
 */
const minGrowthBytes = 32 * 1024 ** 2

/** The process whose memory is released. */
export interface MemoryUser {
  /** The resident set size, in bytes. */
  residentBytes(): number
  /** The share of the time since the last call in which the main thread used a core, from 0 to 1. */
  busyShare(): number
  /**
   * Collects all garbage, which releases memory to the system.
   * @param isThorough whether V8 also releases the free pages that it keeps for new objects
   */
  collect(isThorough: boolean): void
}

/**
 * The garbage that V8 may add to a large heap before the next collection, in percent of the memory in use. Without this bound, V8
 * lets a heap of 100 MB grow to 400 MB on a machine with much memory.
 */
const maxGarbageOfLarge = 40
/** The same for a smaller heap. With 40 %, V8 collected a heap of 30 MB ten times in four seconds of load. */
const maxGarbageOfSmall = 100
/** A heap of this size is large. */
const largeHeapBytes = 80 * 1024 ** 2

/** The interval between two readings of the heap's size. A heap can grow by 100 MB in a quarter of a second. */
const heapCheckIntervalMs = 50

interface Heap {
  usedBytes(): number
  /** Sets how far the heap may grow after a collection, in percent of the memory that is then in use. */
  setGrowth(percent: number): void
}

const thisHeap: Heap = {
  usedBytes: () => getHeapStatistics().used_heap_size,
  setGrowth: (percent) => setFlagsFromString(`--heap-growing-percent=${percent}`),
}

/**
 * Bounds the garbage in the heap while the process runs (docs/decisions/0023-bytes-in-flight.md). V8 has one growth factor
 * for heaps of all sizes, and reads it at the end of each collection. So this function changes the factor with the size.
 */
export function boundGarbage(clock: Clock = unrefClock, heap: Heap = thisHeap): void {
  let growth = 0
  const check = () => {
    const before = growth
    growth = heap.usedBytes() >= largeHeapBytes ? maxGarbageOfLarge : maxGarbageOfSmall
    if (growth !== before) heap.setGrowth(growth)
    clock.setTimeout(check, heapCheckIntervalMs)
  }
  check()
}

/**
 * Lets V8 make all objects in the new space. By default V8 makes objects in the old space if earlier objects of the same code
 * lived long. The objects of the first requests live long, because these requests wait for connections and for compiled code.
 * Then each later request leaves garbage in the old space. This garbage keeps other objects of the request in memory, and costs
 * CPU time (docs/decisions/0023-bytes-in-flight.md).
 */
export function keepNewObjectsApart(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * Releases memory to the system while the process is idle. While nothing is allocated, V8 collects no garbage, and keeps hundreds
 * of megabytes after a burst of requests (docs/decisions/0023-bytes-in-flight.md). The checks do not keep the process alive.
 */
export function releaseIdleMemory(clock: Clock = unrefClock, user: MemoryUser = thisProcess()): void {
  let usualBytes = user.residentBytes()
  let leftBytes = usualBytes
  let collections = 0
  /** The busy shares of the last checks since the last collection. */
  let shares: readonly number[] = []
  const isIdle = () => {
    const checks = (waitsMs[collections] ?? 0) / checkMs
    return shares.length >= checks && meanOf(shares.slice(-checks)) <= maxBusyShare
  }
  const collect = () => {
    // Only the second collection is thorough. At the first, some caches are still in use, and V8 often releases its free pages
    // itself some seconds later.
    user.collect(collections === 1)
    leftBytes = user.residentBytes()
    const isLast = collections === waitsMs.length - 1
    // Memory that remains after several collections is in use.
    usualBytes = isLast ? leftBytes : Math.min(usualBytes, leftBytes)
    collections = isLast ? 0 : collections + 1
    shares = []
  }
  const check = () => {
    shares = [...shares, user.busyShare()].slice(-maxChecks)
    const residentBytes = user.residentBytes()
    // A new burst has come since the last collection. Its cached values are needed for a time, so the waits begin again.
    if (residentBytes - leftBytes > minGrowthBytes) collections = 0
    if (residentBytes - usualBytes <= minGrowthBytes) collections = 0
    else if (isIdle()) collect()
    clock.setTimeout(check, checkMs)
  }
  clock.setTimeout(check, checkMs)
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/**
 * The memory of this process. The busy share is measured in CPU time: on a busy machine the event loop waits for a core, and would
 * seem to be busy.
 */
export function thisProcess(): MemoryUser {
  const now = () => {
    const { user, system } = process.threadCpuUsage()
    return { cpuMs: (user + system) / 1000, ms: performance.now() }
  }
  let before = now()
  return {
    residentBytes: () => process.memoryUsage.rss(),
    busyShare() {
      const { cpuMs, ms } = before
      before = now()
      return (before.cpuMs - cpuMs) / (before.ms - ms)
    },
    collect: collectGarbage,
  }
}

/**
 * Collects all garbage, in some tens of milliseconds. After a normal collection V8 keeps the free pages of the heap, and does not
 * always release them later. A thorough collection releases them, takes up to twice as long, and discards more compiled code. V8
 * makes the function `gc` only with a flag.
 */
function collectGarbage(isThorough: boolean): void {
  setFlagsFromString('--expose-gc')
  runInNewContext(isThorough ? "gc({ type: 'major', flavor: 'last-resort' })" : 'gc()')
}
