import { existsSync } from 'node:fs'

/** The usual paths of Chromium, the most likely path first. */
const usual = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

/**
 * Finds the browser for all test files of a run, and sets CHROMIUM to its path.
 * @throws Error if there is no browser
 */
export function setup(): void {
  const found = process.env['CHROMIUM'] ?? usual.find((path) => existsSync(path))
  if (found === undefined)
    throw new Error('There is no Chromium on this machine. Install one, or set CHROMIUM to its path.')
  process.env['CHROMIUM'] = found
}
