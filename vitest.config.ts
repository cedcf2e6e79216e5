import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/run-folder.ts', 'test/support/shared-postgres.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Files share a process: starting a worker for each, and loading all modules anew in it, was a third of the CPU time.
    isolate: false,
    // Most tests wait rather than compute: left to itself Vitest would run one file at a time on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    coverage: {
      provider: 'v8',
      include: ['src/**/*.ts'],
      // What runs in a browser is tried there: npm run test:page.
      exclude: ['src/page/browser/**'],
      reporter: ['text-summary'],
      // A floor: what the tests cover today, rounded down. It may only rise.
      thresholds: { statements: 94, branches: 89, functions: 95, lines: 95 },
    },
  },
})
