import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What a run shares between its files, such as programs that take long to lay out, is under this name in its folder. */
const shared = 'shared'

/** Removes the folders of runs that were killed, and so could not do it. */
function removeAbandoned(): void {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = /^conservatory-run-(\d+)-/.exec(name) ?? []
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(tmpdir(), name), { recursive: true, force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Another user's process may not be signalled, but is there.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/**
 * Gives a whole test run one temporary folder, in which every other is made, and removes it at the end.
 * @throws Error at the end when a test has left something in it
 */
export function setup(): () => void {
  removeAbandoned()
  const folder = mkdtempSync(join(tmpdir(), `conservatory-run-${process.pid}-`))
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
