import { performance } from 'node:perf_hooks'

/**
 * The number of this turn of the event loop. The number rises right before the sockets are read; so everything until the next
 * reading has the same number: the callbacks of the sockets, the immediates and the timers (docs.libuv.org, "The I/O loop").
 */
export function turnOfLoop(): number {
  return performance.nodeTiming.uvMetricsInfo.loopCount
}
