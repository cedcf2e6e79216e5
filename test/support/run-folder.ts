import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a run shares between its files, such as programs that take long to lay out, is under this name in its folder. */
const shared = 'shared'

/**
 * Gives a whole test run one temporary folder, in which every other is made, and removes it at the end.
 * @throws Error at the end when a test has left something in it
 */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'conservatory-run-'))
  // PostgreSQL runs as nobody where the tests run as root.
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, shared))
  // What the platforms call it; Node reads the first that it knows.
  for (const name of ['TMPDIR', 'TMP', 'TEMP']) process.env[name] = folder
  process.env['TEST_SHARED_FOLDER'] = join(folder, shared)
  return () => {
    const left = readdirSync(folder).filter((name) => name !== shared)
    rmSync(folder, { recursive: true, force: true })
    if (left.length > 0) throw new Error(`The tests left ${left.length} temporary files behind: ${left.join(', ')}.`)
  }
}
