import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** The BOOTSTRAP_KEY of the service in every benchmark. */
export const benchKey = 'a-key-for-benchmarks-only'

/** The command that starts the service. */
export const serviceCommand: readonly [string, ...string[]] = [process.execPath, here('../src/main.ts')]

/** The command that starts the service without group commit. */
export const oneCommitEachCommand: readonly [string, ...string[]] = [process.execPath, here('peers/one-commit-each.ts')]

/** A process under measurement. */
export interface Measured {
  readonly name: string
  readonly port: number
  readonly pid: number
  /** The URL of the process, without a slash at the end. */
  readonly url: string
  stop(): Promise<void>
}

/** A free port of loopback. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Starts a peer of this folder: `peers/NAME.ts PORT …`. */
export async function startPeer(name: string, ...args: readonly string[]): Promise<Measured> {
  const port = await freePort()
  return startNode(name, port, [here(`peers/${name}.ts`), String(port), ...args])
}

/** Starts a program of a package in this folder's package.json. @param args returns the arguments for a port */
export async function startPackage(
  name: string,
  program: string,
  args: (port: number) => readonly string[],
): Promise<Measured> {
  const port = await freePort()
  return startNode(name, port, [here(`node_modules/${program}`), ...args(port)])
}

/**
 * Starts the service, by default with an empty data folder and a silent log.
 * @param command `node src/main.ts`, unless a benchmark wraps or replaces it
 */
export async function startService(
  name: string,
  environment: Readonly<Record<string, string>> = {},
  [program, ...args]: readonly [string, ...string[]] = serviceCommand,
): Promise<Measured> {
  const port = await freePort()
  const dataDirectory = environment['DATA_DIR'] ?? mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
  const service = spawn(program, args, {
    env: {
      PATH: process.env['PATH'],
      PORT: String(port),
      DATA_DIR: dataDirectory,
      BOOTSTRAP_KEY: benchKey,
      LOG_LEVEL: 'silent',
      ...environment,
    },
    stdio: 'ignore',
  })
  const measured = await started(name, port, service, (reply) => reply.ok)
  return {
    ...measured,
    async stop() {
      await measured.stop()
      if (environment['DATA_DIR'] === undefined) rmSync(dataDirectory, { recursive: true })
    },
  }
}

function startNode(name: string, port: number, args: readonly string[]): Promise<Measured> {
  return started(name, port, spawn(process.execPath, args, { stdio: 'ignore' }))
}

/** @param isReady whether the process is ready that answers so to `GET /readyz`; by default every answer will do */
async function started(
  name: string,
  port: number,
  child: ChildProcess,
  isReady: (reply: Response) => boolean = () => true,
): Promise<Measured> {
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  for (let attempt = 0; attempt < 1000; attempt++) {
    if (await isListening(port, isReady)) {
      return {
        name,
        port,
        pid: child.pid ?? 0,
        url: `http://127.0.0.1:${port}`,
        async stop() {
          child.kill('SIGKILL')
          await exited
        },
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  child.kill('SIGKILL')
  throw new Error(`${name} does not listen`)
}

async function isListening(port: number, isReady: (reply: Response) => boolean): Promise<boolean> {
  try {
    return isReady(await fetch(`http://127.0.0.1:${port}/readyz`))
  } catch {
    return false
  }
}

/** The CPU time of a process so far, in seconds. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** The resident memory of a process, in MB. */
export function residentMegabytes(pid: number): number {
  return (Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / 1e6
}

/** The resources that a process has used since its start. */
export interface Used {
  readonly cpuSeconds: number
  /** The peak memory of the process. */
  readonly megabytes: number
}

/** Samples the resources of a process. @returns a function that stops the sampling, and returns the last sample */
export function watchUse({ pid = 0 }: ChildProcess): () => Used {
  let used: Used = { megabytes: 0, cpuSeconds: 0 }
  const look = () => {
    try {
      const kilobytes = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
      if (kilobytes === undefined) return
      used = { megabytes: (Number(kilobytes) * 1024) / 1e6, cpuSeconds: cpuSeconds(pid) }
    } catch {
      // The process has ended.
    }
  }
  const watch = setInterval(look, 20)
  return () => {
    clearInterval(watch)
    return used
  }
}
