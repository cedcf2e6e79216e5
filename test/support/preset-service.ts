import { onTestFinished } from 'vitest'
import { compileCache } from './command.ts'
import { spawnService } from './process.ts'
import { temporaryFolder } from './service.ts'

/** The key that the services started here have from the first start on. */
export const preset = 'a-key-that-tests-choose'

/** A data folder that is gone when the test is over. */
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
