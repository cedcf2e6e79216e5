import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import type { BytesInFlight } from '../http/bytes-in-flight.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { PageCache } from '../plants/page-cache.ts'
import type { Stores } from '../stores/stores.ts'
import type { WorkerPool } from '../work/pool.ts'
import type { Metrics } from './metrics.ts'

/** The parts whose values are read at each scrape. */
export interface MeasuredParts {
  readonly stores: Pick<Stores, 'metrics'>
  readonly models: Pick<ModelRegistry, 'breakers'>
  readonly limiter: Pick<Limiter, 'inFlightChats'>
  readonly inFlight: Pick<BytesInFlight, 'bytes' | 'refusals'>
  readonly pool: Pick<WorkerPool, 'workers' | 'waiting' | 'endedJobs'>
}

/** The interval at which Node measures the delay of the event loop, in milliseconds. */
const delayResolutionMs = 20

/** Adds the metrics of the parts, the event loop and the process. @returns a function that stops measuring the event loop */
export function addPartMetrics(metrics: Metrics, parts: MeasuredParts): () => void {
  const { stores, models, limiter, inFlight, pool } = parts
  for (const metric of stores.metrics) metrics.add(metric)
  metrics.gauge('conservatory_chats_in_progress', 'Chat requests in flight.', () => limiter.inFlightChats)
  metrics.gauge(
    'conservatory_breaker_state',
    'Of each model with a breaker: 1 under the state that it is in, closed, open or probing, and 0 under the others.',
    () =>
      models.breakers().flatMap(({ name, state }) =>
        (['closed', 'open', 'probing'] as const).map((each) => ({
          labels: { gen_ai_request_model: name, state: each },
          value: each === state ? 1 : 0,
        })),
      ),
  )
  addBytesInFlight(metrics, inFlight)
  addWorkers(metrics, pool)
  const stopEventLoopMetrics = addEventLoopMetrics(metrics)
  addProcessMetrics(metrics)
  return stopEventLoopMetrics
}

/** Adds the metric of the page cache. */
export function addPageCacheMetrics(metrics: Metrics, pages: Pick<PageCache, 'uses'>): void {
  metrics.counter('conservatory_page_cache_requests_total', 'Pages of plants that were asked for.', () => {
    const { hits, misses } = pages.uses
    return [
      { labels: { result: 'hit' }, value: hits },
      { labels: { result: 'miss' }, value: misses },
    ]
  })
}

function addBytesInFlight(metrics: Metrics, inFlight: MeasuredParts['inFlight']): void {
  metrics.gauge('conservatory_in_flight_bytes', 'Bytes of large bodies and replies in memory.', () => inFlight.bytes)
  metrics.counter(
    'conservatory_in_flight_refusals_total',
    'Bodies and replies that were refused because the bytes in flight were at their bound.',
    () => inFlight.refusals,
  )
}

function addWorkers(metrics: Metrics, pool: MeasuredParts['pool']): void {
  metrics.gauge('conservatory_workers', 'Worker threads for large work.', () => pool.workers)
  metrics.gauge('conservatory_jobs_waiting', 'Jobs that wait for a worker thread.', () => pool.waiting)
  metrics.counter(
    'conservatory_jobs_ended_total',
    'Jobs that were ended because they took too much time or memory.',
    () => pool.endedJobs,
  )
}

function addEventLoopMetrics(metrics: Metrics): () => void {
  const delay = monitorEventLoopDelay({ resolution: delayResolutionMs })
  delay.enable()
  // Node measures the time between two ticks of a timer. This time includes the interval of the timer.
  const seconds = (nanoseconds: number) => Math.max(0, (nanoseconds || 0) / 1e9 - delayResolutionMs / 1000)
  metrics.gauge('nodejs_eventloop_delay_p50_seconds', 'Median delay of the event loop since the last scrape.', () =>
    seconds(delay.percentile(50)),
  )
  metrics.gauge('nodejs_eventloop_delay_p99_seconds', 'Delay that 99 % did not exceed since the last scrape.', () =>
    seconds(delay.percentile(99)),
  )
  metrics.gauge('nodejs_eventloop_delay_max_seconds', 'Longest delay of the event loop since the last scrape.', () => {
    const longest = delay.count === 0 ? 0 : seconds(delay.max)
    // A scrape reads the three gauges in order, and this one last. So it resets the histogram for the next scrape.
    delay.reset()
    return longest
  })
  metrics.counter('nodejs_eventloop_time_seconds_total', 'Time that the event loop was active, or idle.', () => {
    const { active, idle } = performance.eventLoopUtilization()
    return [
      { labels: { nodejs_eventloop_state: 'active' }, value: active / 1000 },
      { labels: { nodejs_eventloop_state: 'idle' }, value: idle / 1000 },
    ]
  })
  return () => delay.disable()
}

function addProcessMetrics(metrics: Metrics): void {
  metrics.counter('process_cpu_seconds_total', 'CPU time, of the user and the system.', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  metrics.gauge('process_resident_memory_bytes', 'Memory that the process holds.', () => process.memoryUsage.rss())
  metrics.gauge(
    'v8js_memory_heap_used_bytes',
    'Memory of the heap that is in use.',
    () => process.memoryUsage().heapUsed,
  )
  metrics.gauge('process_start_time_seconds', 'When the process was started, Unix time.', () =>
    Math.round(performance.timeOrigin / 1000),
  )
}
