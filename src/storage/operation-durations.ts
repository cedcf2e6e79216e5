import { Histogram } from '../instruments.ts'

/** Counts how long the database takes, for `/metrics`; its labels are the engine, and whether it was to `read` or to `write`. */
export function operationDurations(): Histogram {
  return new Histogram({
    name: 'db_client_operation_duration_seconds',
    help: 'Time that one try of reading, or of a transaction, took, failed ones too. Over SQLite those of batches of writes.',
    labels: ['db_system_name', 'db_operation_name'],
    bounds: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
  })
}
