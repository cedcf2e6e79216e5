import { Histogram } from '../instruments.ts'

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
