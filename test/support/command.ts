import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { projectFolder } from './process.ts'
import { settingsOf } from './test-database.ts'

/** How a command ended, and all that it printed. */
export interface Ended {
  readonly code: number | string | null | undefined
  readonly stdout: string
  readonly stderr: string
}

/** Makes a second start of the same code take half the time. */
export const compileCache = { NODE_COMPILE_CACHE: join(projectFolder, 'node_modules', '.cache', 'node') }

/**
 * Runs `conservatory …` as a process of its own, with these settings alone (and the database that goes with its data
 * folder), and waits until it ends.
 */
export async function conservatory(
  args: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<Ended> {
  const { DATA_DIR } = settings
  const place = DATA_DIR === undefined ? {} : await settingsOf(DATA_DIR)
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...compileCache, ...place, ...settings }
  return new Promise((resolve) => {
    // A service that starts although it must not would run for ever: the time limit ends it, and the code tells.
    const options = { cwd: projectFolder, env, timeout: 20_000 }
    execFile(process.execPath, ['src/main.ts', ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, stdout, stderr })
    })
  })
}
