import type { Metric, Sample } from '../../instruments.ts'

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
