import { globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import base from './vitest.config.ts'

/** What starts a service, runs a command or opens its stores; anything else does the same over any database. */
const usesDatabase =
  /support\/(?:service|preset-service|upstream-service|two-upstreams|plant-callers|process|command|slow-clients|test-database|test-sql)\.ts'/

/** The black-box tests again, every service over a database of its own in one PostgreSQL. */
export default defineConfig({
  test: {
    ...base.test,
    globalSetup: ['test/support/run-folder.ts', 'test/support/shared-postgres.ts', 'test/support/postgres-for-all.ts'],
    include: globSync('test/**/*.test.ts').filter((file) => usesDatabase.test(readFileSync(file, 'utf8'))),
    exclude: [
      // A disk without room for SQLite's file, and a program that holds its lock.
      'test/service/full-disk.test.ts',
      'test/usage/waiting-ends.test.ts',
      // SQLite's file itself: its pragmas, its log after a kill, one service to a folder; and its backups.
      'test/storage/sqlite-file.test.ts',
      'test/service/held-folder.test.ts',
      'test/storage/{backup,backup-folder,restore,rights,wal,write-lock}.test.ts',
      // These try every engine, or servers of their own, in each run.
      'test/metrics/ops.test.ts',
      'test/stores/**',
      'test/storage/postgres/{database,faults,start-faults}.test.ts',
      'test/limits/replicas.test.ts',
      // Over PostgreSQL the places of a service that was killed are free after 20 seconds, which a trial is about.
      'test/limits/at-once.test.ts',
    ],
  },
})
