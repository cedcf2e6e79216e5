import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The name of the folder for files that the test files of a run share, such as unpacked programs. */
const shared = 'shared'

/** Removes the folders that killed runs have left behind. */
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
    // EPERM means that the process exists, and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/**
 * Makes one temporary folder for the whole test run, in which all other temporary folders are made, and removes it at the end.
 * @throws Error at the end, if a test has left a file in the folder
 */
export function setup(): () => void {
  removeAbandoned()
  const folder = mkdtempSync(join(tmpdir(), `conservatory-run-${process.pid}-`))
  // If the tests run as root, PostgreSQL runs as nobody, who must be able to enter the folder.
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, shared))
  // The variable for the temporary folder has one of these names, depending on the platform.
  for (const name of ['TMPDIR', 'TMP', 'TEMP']) process.env[name] = folder
  process.env['TEST_SHARED_FOLDER'] = join(folder, shared)
  return () => {
    const left = readdirSync(folder).filter((name) => name !== shared)
    rmSync(folder, { recursive: true, force: true })
    if (left.length > 0) throw new Error(`The tests left ${left.length} temporary files behind: ${left.join(', ')}.`)
  }
}
