import { defineConfig } from 'vitest/config'
import base from './vitest.config.ts'

/**
 * The black-box tests again, every service over a database of its own in one PostgreSQL. Left out are the tests that
 * open SQLite's own file beside the service, or are of it: backups, a full disk, a second process.
 */
export default defineConfig({
  test: {
    ...base.test,
    globalSetup: ['test/support/postgres-for-all.ts'],
    include: ['test/**/*.test.ts'],
    exclude: [
      'test/http/errors.test.ts',
      'test/openapi.test.ts',
      'test/limits/ends.test.ts',
      'test/limits/at-once.test.ts',
      'test/metrics/metrics.test.ts',
      // Its ETags change with every write; those over PostgreSQL are made of what is shown.
      'test/plants/idempotency.test.ts',
      'test/access/access.test.ts',
      'test/access/commands.test.ts',
      'test/access/ending.test.ts',
      'test/access/failed-logins.test.ts',
      'test/canaries.test.ts',
      'test/characters/api.test.ts',
      'test/characters/commands.test.ts',
      'test/characters/library.test.ts',
      'test/command-line.test.ts',
      'test/durability.test.ts',
      'test/going-down.test.ts',
      'test/http/stalled-readers.test.ts',
      'test/limits/limits.test.ts',
      'test/plants/isolation.test.ts',
      'test/plants/long-list.test.ts',
      'test/plants/plants.test.ts',
      'test/plants/sharing.test.ts',
      'test/soak.test.ts',
      'test/stores/isolation.contract.test.ts',
      'test/stores/pages.test.ts',
      'test/stores/plants.contract.test.ts',
      'test/stores/replicas.test.ts',
      'test/transfer/transfer.test.ts',
      'test/usage/commands.test.ts',
      'test/usage/usage.test.ts',
    ],
  },
})
