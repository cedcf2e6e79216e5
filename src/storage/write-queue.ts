import type { Metric } from '../instruments.ts'

/** The writes of plants that wait for their commit. With SQLite, the writes of shares and of the audit trail wait here too. */
export interface WriteQueue {
  readonly length: number
  /** Since when the oldest write waits, by `performance.now()`; undefined when the queue is empty. */
  readonly oldestSince: number | undefined
}

/** The metrics of the write queue. They are the same for both database engines. */
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
      help: 'Age of the oldest write that waits to be committed.',
      type: 'gauge',
      samples() {
        const { oldestSince } = read()
        return [{ value: oldestSince === undefined ? 0 : (performance.now() - oldestSince) / 1000 }]
      },
    },
  ]
}
