import { Histogram } from '../instruments.ts'

/** The histogram of the seconds that operations of the database take, by engine and by `read` or `write`. */
export function operationDurations(): Histogram {
  return new Histogram({
    name: 'db_client_operation_duration_seconds',
    help: 'Time of one attempt at a read or a transaction, even if it failed. With SQLite, only of group commits.',
    labels: ['db_system_name', 'db_operation_name'],
    bounds: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
  })
}
