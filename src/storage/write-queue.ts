import type { Metric } from '../instruments.ts'

/** The writes of plants that have no answer yet. */
export interface WriteQueue {
  readonly length: number
  /** Since when the oldest one waits, by `performance.now()`; undefined where none does. */
  readonly oldestSince: number | undefined
}

/** Tells how many writes of plants wait, and for how long, for `/metrics`; the same for every database engine. */
export function writeQueueMetrics(read: () => WriteQueue): readonly Metric[] {
  return [
    {
      name: 'conservatory_write_queue',
      help: 'Writes of plants that wait to be committed.',
      type: 'gauge',
      samples: () => [{ value: read().length }],
    },
    {
      name: 'conservatory_write_queue_age_seconds',
      help: 'Time for which the oldest of the writes that wait has waited.',
      type: 'gauge',
      samples() {
        const { oldestSince } = read()
        return [{ value: oldestSince === undefined ? 0 : (performance.now() - oldestSince) / 1000 }]
      },
    },
  ]
}
