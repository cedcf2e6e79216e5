import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { compileCache } from './command.ts'
import { type SpawnedService, spawnService } from './process.ts'
import { temporaryFolder } from './service.ts'

const key = 'a-key-of-a-slow-client'

export const megabyte = 1024 ** 2

/** Starts a service as a child process, optionally with these models. */
export async function startForSlowClients(
  environment: Record<string, string>,
  models?: object,
): Promise<SpawnedService> {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  if (models) writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  return spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder.path, BOOTSTRAP_KEY: key, ...environment },
  })
}

/** The request line and the headers of a request with the first key, as raw text. */
export function requestHead(method: string, path: string, ...lines: readonly string[]): string {
  return `${[`${method} ${path} HTTP/1.1`, 'Host: x', `Authorization: Bearer ${key}`, ...lines].join('\r\n')}\r\n\r\n`
}

/** Checks that the service answers another client. */
export async function expectServed({ url }: SpawnedService): Promise<void> {
  const headers = { authorization: `Bearer ${key}` }
  const answer = await fetch(`${url}/plants?limit=1`, { headers })
  expect(answer.status).toBe(200)
}
