import { defineConfig } from 'vitest/config'

/*
 * The page in headless Chromium, by a user's clicks and keys: npm run test:page. CHROMIUM is the browser; without it one is
 * looked for where systems have it.
 */
export default defineConfig({
  test: {
    include: ['test/page/**/*.page.ts'],
    globalSetup: [
      'test/support/run-folder.ts',
      'test/support/shared-postgres.ts',
      'test/support/page/browser-setup.ts',
    ],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // A browser is a program of its own: what failed is tried once more, and is shown as tried twice.
    retry: 1,
    isolate: false,
    maxWorkers: 2,
    reporters: ['verbose'],
  },
})
