import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Clock, unrefClock } from './clock.ts'

/** Milliseconds between two looks: the shortest, and twice as many after each collection, since the rest may be in use. */
const shortestWaitMs = 5000
const longestWaitMs = 80_000

/** The largest share of the time since the last look in which the event loop worked: a collection delays whatever comes meanwhile. */
const mostBusy = 0.05

/** Bytes of growth since the last collection that are worth another one. */
const mostGrownBytes = 32 * 1024 ** 2

/** The process whose memory is given back. */
export interface MemoryUser {
  /** Bytes of its memory that are in the machine's. */
  residentBytes(): number
  /** The share of the time since this was last asked in which the event loop worked, from 0 to 1. */
  busyShare(): number
  /** Collects all garbage; its memory goes back to the system. */
  collect(): void
}

/**
 * Percent of what is in use that V8 may add in garbage before it collects. Without a bound V8 lets a heap of 100 MB grow to four
 * times that on a machine with much memory, whatever the requests hold.
 */
const maxGarbagePercent = 40

/**
 * Bounds the garbage that V8 lets grow under load (docs/decisions/0023-bytes-in-flight.md). V8 reads the setting at each
 * collection, so it holds from the next one on, for the whole process.
 */
export function boundGarbage(): void {
  setFlagsFromString(`--heap-growing-percent=${maxGarbagePercent}`)
}

/**
 * Gives memory back to the system while the process is idle: V8 collects no garbage while nothing is allocated, and would
 * keep hundreds of megabytes after a burst of requests (docs/decisions/0023-bytes-in-flight.md). It goes on as long as
 * the process does, and keeps that from no end.
 */
export function releaseIdleMemory(clock: Clock = unrefClock, user: MemoryUser = thisProcess()): void {
  let usualBytes = user.residentBytes()
  let waitMs = shortestWaitMs
  const look = () => {
    const isIdle = user.busyShare() <= mostBusy
    if (isIdle && user.residentBytes() - usualBytes > mostGrownBytes) {
      user.collect()
      const leftBytes = user.residentBytes()
      const isLast = waitMs === longestWaitMs
      // After several collections the rest is in use.
      usualBytes = isLast ? leftBytes : Math.min(usualBytes, leftBytes)
      waitMs = isLast ? shortestWaitMs : 2 * waitMs
    } else waitMs = shortestWaitMs
    clock.setTimeout(look, waitMs)
  }
  clock.setTimeout(look, waitMs)
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

/** Collects all garbage, in some tens of milliseconds: V8 can do that, and hides it behind a flag. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
}
