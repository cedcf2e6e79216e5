import { defineConfig } from 'vitest/config'

/*
 * The tests that need node-llama-cpp, which is not a dependency: `npm test` leaves them out, CI installs it and runs them
 * (see .ci/run). Without it they fail, with the sentence that says what to install.
 */
export default defineConfig({
  test: {
    include: ['test/**/*.inference.ts'],
    globalSetup: ['test/support/run-folder.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
