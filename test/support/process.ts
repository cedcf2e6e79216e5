import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { residentMegabytes } from './process-sight.ts'
import { temporaryFolder } from './service.ts'
import { settingsOf } from './test-database.ts'

/** The folder of the checkout. */
export const projectFolder = fileURLToPath(new URL('../..', import.meta.url))

/** The compile cache, which halves the time of a second start. */
export const compileCache = { NODE_COMPILE_CACHE: join(projectFolder, 'node_modules', '.cache', 'node') }

/** The service as a child process, on a free port, with its own data folder. */
export interface SpawnedService {
  readonly url: string
  /** The first key of the service: the key that it has printed, or BOOTSTRAP_KEY. */
  readonly key: string
  readonly dataDirectory: string
  readonly process: ChildProcess
  /** The output so far. */
  readonly stdout: () => string
  readonly stderr: () => string
  /** Resolves with the exit code of the process, or with null if a signal ended it. */
  readonly exited: Promise<number | null>
}

interface Spawning {
  readonly environment?: Readonly<Record<string, string>>
  /** The folder of the checkout whose service is started; by default this checkout. */
  readonly folder?: string
}

/**
 * Starts the service with a command line such as `npm start`, and waits until it listens. At the end of the running test the
 * service is stopped, and its data folder is removed.
 */
export async function spawnService(
  command: string,
  args: readonly string[],
  spawning: Spawning = {},
): Promise<SpawnedService> {
  const { service, listening } = await startSpawned(command, args, spawning)
  onTestFinished(service.close)
  return listening
}

/** A service, which may not listen yet. */
interface Starting extends Pick<SpawnedService, 'process' | 'stderr' | 'exited'> {
  close(): Promise<void>
}

/**
 * Starts the service with a command line. The caller closes it.
 * @returns the service, which may not listen yet, and a promise of the listening service
 */
export async function startSpawned(
  command: string,
  args: readonly string[],
  { environment = {}, folder = projectFolder }: Spawning = {},
): Promise<{ readonly service: Starting; readonly listening: Promise<SpawnedService> }> {
  const data = temporaryFolder()
  const dataDirectory = environment['DATA_DIR'] ?? data.path
  const settings = await settingsOf(dataDirectory)
  const service = spawn(command, args, {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      PORT: '0',
      ...compileCache,
      ...settings,
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  service.stdout.on('data', (text) => {
    stdout += text
  })
  service.stderr.on('data', (text) => {
    stderr += text
  })
  const exited = new Promise<number | null>((resolve) => service.once('exit', resolve))
  const close = async () => {
    if (service.exitCode === null && service.signalCode === null) service.kill('SIGTERM')
    await exited
    data.remove()
  }
  const listens = new Promise<string>((resolve, reject) => {
    const look = () => {
      const address = /listens on (http:\S+)/.exec(stderr)?.[1]
      if (address !== undefined) resolve(address)
    }
    service.stderr.on('data', look)
    void exited.then((code) => reject(new Error(`the service ended with ${code}: ${stderr}${stdout}`)))
  })
  const listening = listens.then((url) => {
    const key = /^ {2}(\S{16,})$/m.exec(stderr)?.[1] ?? environment['BOOTSTRAP_KEY'] ?? ''
    return { url, key, dataDirectory, process: service, stdout: () => stdout, stderr: () => stderr, exited }
  })
  return { service: { process: service, stderr: () => stderr, exited, close }, listening }
}

/** The memory of a service that has been spawned, in bytes. */
export function memoryOf({ process }: SpawnedService): number {
  return residentMegabytes(process.pid ?? 0) * 1e6
}
