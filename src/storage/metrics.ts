import { Histogram, type Metric, type Sample } from '../instruments.ts'

/** The histogram of the seconds that operations of the database take, by engine and by `read` or `write`. */
export function operationDurations(): Histogram {
  return new Histogram({
    name: 'db_client_operation_duration_seconds',
    help: 'Time of one attempt at a read or a transaction, even if it failed. With SQLite, only of group commits.',
    labels: ['db_system_name', 'db_operation_name'],
    bounds: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
  })
}

/**
 * Makes the histogram of the number of writes in one commit. With PostgreSQL, the histogram counts the writes of plants. With
 * SQLite, the histogram also counts the writes of shares and of the audit trail.
 */
export function batchSizes(): Histogram {
  return new Histogram({
    name: 'conservatory_commit_batch_size',
    help: 'Writes that share one commit.',
    bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  })
}

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

/** How many connections of a pool are used. */
export interface PoolUse {
  readonly name: string
  readonly max: number
  readonly used: number
  /** How many reads or transactions wait for a connection. */
  readonly waiting: number
}

/** Metrics of the connections to the database. */
export function poolMetrics(read: () => readonly PoolUse[]): readonly Metric[] {
  const samplesOf = (value: (use: PoolUse) => number, labels: Readonly<Record<string, string>> = {}) => {
    return (): Iterable<Sample> =>
      read().map((use) => ({ labels: { db_client_connection_pool_name: use.name, ...labels }, value: value(use) }))
  }
  return [
    {
      name: 'db_client_connection_count',
      help: 'Connections to the database that are in use.',
      type: 'gauge',
      samples: samplesOf(({ used }) => used, { db_client_connection_state: 'used' }),
    },
    {
      name: 'db_client_connection_max',
      help: 'The most connections to the database.',
      type: 'gauge',
      samples: samplesOf(({ max }) => max),
    },
    {
      name: 'db_client_connection_pending_requests',
      help: 'Reads and transactions that wait for a connection to the database, or for the share of their account.',
      type: 'gauge',
      samples: samplesOf(({ waiting }) => waiting),
    },
  ]
}
