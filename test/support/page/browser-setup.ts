import { existsSync } from 'node:fs'

/** Where systems have a Chromium, the most likely first. */
const usual = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

/**
 * Finds the browser of a run, for all its files.
 * @throws Error where there is none
 */
export function setup(): void {
  const found = process.env['CHROMIUM'] ?? usual.find((path) => existsSync(path))
  if (found === undefined)
    throw new Error('There is no Chromium on this machine. Install one, or set CHROMIUM to its path.')
  process.env['CHROMIUM'] = found
}
