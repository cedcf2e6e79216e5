import { Histogram } from '../instruments.ts'

/**
 * The histogram of how many writes share a commit; the same for every database engine. Over PostgreSQL these are the writes of
 * plants, and over SQLite also those of shares and of the audit trail.
 */
export function batchSizes(): Histogram {
  return new Histogram({
    name: 'conservatory_commit_batch_size',
    help: 'Writes that share one commit.',
    bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  })
}
