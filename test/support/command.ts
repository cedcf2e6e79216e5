import { AsyncLocalStorage } from 'node:async_hooks'
import { execFile } from 'node:child_process'
import { onTestFinished } from 'vitest'
import type { Service } from '../../src/service.ts'
import { takeLog } from './log.ts'
import { compileCache, projectFolder } from './process.ts'
import { temporaryFolder } from './service.ts'
import { settingsOf } from './test-database.ts'

export { compileCache }

/** How a command ended, and all that it printed. */
export interface Ended {
  readonly code: number | string | null | undefined
  readonly stdout: string
  readonly stderr: string
}

type Settings = Readonly<Record<string, string>>

/**
 * Runs `conservatory …` in this process, which saves half a second, and waits until the command ends. The command has only these
 * settings and the database of its data folder. If the command starts the service, the service is closed immediately and the
 * exit code is null, so only failed starts can be tested in this way.
 */
export async function conservatory(args: readonly string[], settings: Settings): Promise<Ended> {
  const { runCommand } = await import('../../src/command-line.ts')
  const { sentenceOf } = await import('../../src/storage/data-folder.ts')
  const environment = { ...(await placeOf(settings)), ...settings }
  const printed: Printed = { stdout: [], stderr: [] }
  const log = takeLog()
  let isServed = false
  const serve = async () => {
    isServed = true
    await (await startAsServing(environment)).service.close()
  }
  const ended = (code: number | null): Ended => ({
    code,
    stdout: Buffer.concat(printed.stdout).toString('utf8') + log.written(),
    stderr: Buffer.concat(printed.stderr).toString('utf8'),
  })
  try {
    // Without arguments, the command runs the service.
    const words = args.length === 0 ? ['serve'] : args
    const code = await printing.run(printed, () => runCommand(words, environment, serve))
    return ended(isServed ? null : code)
  } catch (error) {
    // The error is printed as entry.ts prints it.
    printed.stderr.push(Buffer.from(`${sentenceOf(error)}\n`))
    return ended(1)
  } finally {
    log.end()
  }
}

/** The service in this process, with its log and its output for the operator. */
export interface Served {
  readonly url: string
  /** The first key of the service: the key that it has printed, or BOOTSTRAP_KEY. */
  readonly key: string
  /** The log so far. */
  readonly stdout: () => string
  /** The output for the operator so far. */
  readonly stderr: () => string
  close(): Promise<void>
}

/**
 * Runs the service in this process, on a free port of loopback, until it is closed or the running test ends. The service has only
 * these settings and the database of its data folder. If the settings have no DATA_DIR, the folder is new.
 */
export async function serveForThisTest(given: Settings): Promise<Served> {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const settings = { DATA_DIR: path, ...given }
  const log = takeLog()
  onTestFinished(log.end)
  const printed: Printed = { stdout: [], stderr: [] }
  const environment = { PORT: '0', ...(await placeOf(settings)), ...settings }
  const { service, notices } = await printing.run(printed, () => startAsServing(environment))
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= service.close().finally(log.end)
    return closing
  }
  onTestFinished(close)
  return {
    url: service.address,
    key: service.bootstrap.first?.key ?? given['BOOTSTRAP_KEY'] ?? '',
    stdout: log.written,
    stderr: () => `${Buffer.concat(printed.stderr).toString('utf8')}${notices}\n`,
    close,
  }
}

/** Starts the service as entry.ts does. */
async function startAsServing(environment: Settings): Promise<{ readonly service: Service; readonly notices: string }> {
  const [{ readConfig }, { prepareFolder }, { startToServe }] = await Promise.all([
    import('../../src/config.ts'),
    import('../../src/storage/data-folder.ts'),
    import('../../src/serve.ts'),
  ])
  const config = readConfig(environment)
  prepareFolder(config.dataDirectory)
  return startToServe(config)
}

/** Runs the command as a child process, from its start to its exit code. */
export async function conservatoryProcess(args: readonly string[], settings: Settings): Promise<Ended> {
  const place = await placeOf(settings)
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...compileCache, ...place, ...settings }
  return new Promise((resolve) => {
    // The timeout ends a service that starts although it must not; the exit code shows that.
    const options = { cwd: projectFolder, env, timeout: 20_000 }
    execFile(process.execPath, ['src/main.ts', ...args], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, stdout, stderr })
    })
  })
}

async function placeOf({ DATA_DIR }: Settings): Promise<Settings> {
  return DATA_DIR === undefined ? {} : settingsOf(DATA_DIR)
}

interface Printed {
  readonly stdout: Buffer[]
  readonly stderr: Buffer[]
}

/** Separates the output of one command from the output of other commands and of the tests. */
const printing = new AsyncLocalStorage<Printed>()
for (const name of ['stdout', 'stderr'] as const) {
  const stream = process[name]
  const write = stream.write.bind(stream)
  type Done = (error?: Error | null) => void
  stream.write = (chunk: string | Uint8Array, encoding?: BufferEncoding | Done, done?: Done): boolean => {
    const called = typeof encoding === 'function' ? encoding : done
    const printed = printing.getStore()
    if (!printed) return write(chunk, called)
    printed[name].push(Buffer.from(chunk))
    called?.()
    return true
  }
}
