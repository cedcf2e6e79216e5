import { onTestFinished } from 'vitest'
import { compileCache } from './command.ts'
import { spawnService } from './process.ts'
import { temporaryFolder } from './service.ts'

/** The first key of the services that `start` starts. */
export const preset = 'a-key-that-tests-choose'

/** Makes a data folder, which is removed at the end of the running test. */
export function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

/** Starts the service over a data folder, as a process that can be killed and started again. */
export const start = (folder: string) =>
  spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder, BOOTSTRAP_KEY: preset, LOG_LEVEL: 'silent' },
  })

/** Adds a plant. */
export function add(url: string, name: string): Promise<Response> {
  const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
  return fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name }) })
}
