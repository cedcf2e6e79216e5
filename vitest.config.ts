import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/run-folder.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Most tests wait rather than compute: left to itself Vitest would run one file at a time on two cores.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    coverage: { provider: 'v8', include: ['src/**/*.ts'], reporter: ['text-summary'] },
  },
})
