import { execFileSync, spawnSync } from 'node:child_process'
import { rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { compileCache } from './command.ts'
import { type SpawnedService, spawnService } from './process.ts'
import { temporaryFolder } from './service.ts'

/** A disk that can be full, and a service that keeps its data there. */
export interface Disk {
  readonly service: SpawnedService
  fill(): void
  makeRoom(): void
}

const megabyte = 1024 ** 2

/** A limit on the size of files (RLIMIT_FSIZE), which needs no privilege: SQLite's writes fail with EFBIG. */
async function startWithLimit(environment: Record<string, string>): Promise<Disk> {
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, ...environment },
  })
  const limit = (soft: number | 'unlimited') =>
    execFileSync('prlimit', ['--pid', String(service.process.pid), `--fsize=${soft}:`])
  const log = join(service.dataDirectory, 'conservatory.db-wal')
  return { service, fill: () => void limit(statSync(log).size), makeRoom: () => void limit('unlimited') }
}

// The mount is in a separate mount namespace. Without root it also needs a user namespace, if the system allows it.
const unshare = process.getuid?.() === 0 ? ['-m'] : ['-rm']
const mount = 'mount -t tmpfs -o size=6m none "$DATA_DIR"'

/** A small file system that is really full: SQLite's writes fail with ENOSPC. */
async function startOnTmpfs(environment: Record<string, string>): Promise<Disk> {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const script = `${mount} && exec "$0" src/main.ts`
  const service = await spawnService('unshare', [...unshare, 'sh', '-c', script, process.execPath], {
    environment: { ...compileCache, DATA_DIR: folder.path, ...environment },
  })
  const ballast = join(`/proc/${service.process.pid}/root`, folder.path, 'ballast')
  const fill = () => {
    // Smaller files fill the remaining blocks.
    for (const size of [megabyte / 4, 4096]) {
      try {
        for (;;) writeFileSync(ballast, Buffer.alloc(size), { flag: 'a' })
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
      }
    }
  }
  return { service, fill, makeRoom: () => rmSync(ballast) }
}

function canMount(): boolean {
  const folder = temporaryFolder()
  try {
    const environment = { env: { ...process.env, DATA_DIR: folder.path } }
    return spawnSync('unshare', [...unshare, 'sh', '-c', mount], environment).status === 0
  } finally {
    folder.remove()
  }
}

/** The kinds of full disk that this machine supports: always the limit, and the full file system if it can be mounted. */
export const disks: readonly (readonly [what: string, start: typeof startOnTmpfs])[] = [
  ['files that may not grow', startWithLimit],
  ...(canMount() ? [['a file system without room', startOnTmpfs] as const] : []),
]
