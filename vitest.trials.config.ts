import { defineConfig } from 'vitest/config'

/*
 * The long trials, one at a time: npm run trials -- NAME. Each is a file test/trials/NAME.trial.ts, needs minutes rather than
 * seconds, and may need Debian's packages; its first lines say which.
 */
export default defineConfig({
  test: {
    include: ['test/trials/**/*.trial.ts'],
    globalSetup: ['test/support/run-folder.ts', 'test/support/shared-postgres.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    fileParallelism: false,
    reporters: ['verbose'],
  },
})
