import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Held } from '../held-probe.ts'
import { projectFolder, type SpawnedService, startSpawned } from '../process.ts'
import { queuedMs } from '../process-sight.ts'
import { temporaryFolder } from '../service.ts'
import { newPostgresDatabase } from '../shared-postgres.ts'
import { openSqlOf } from '../test-sql.ts'
import { goodUpstream } from './good-upstream.ts'
import type { Row } from './row.ts'

/** The number of accounts: one for each of 16 attackers, and two for the bystanders. */
const accounts = 18

/** A service under attack. Its code may be from another checkout. */
export interface AttackedService {
  readonly url: string
  readonly folder: string
  readonly dataDirectory: string
  /** The key of the bystanders' account, and the key for their large chats. */
  readonly bystanderKey: string
  readonly largeKey: string
  readonly attackerKeys: readonly string[]
  /** The probe's measurements since the last call; undefined after a wait of `most` milliseconds. */
  held(most: number): Promise<Held | undefined>
  /** CPU milliseconds of the main thread since the start. */
  cpu(): number
  /** Milliseconds since the start in which the main thread was ready to run but no core was free. */
  queued(): number
  /** The resident memory in bytes. */
  memory(): number
  isRunning(): boolean
  close(): Promise<void>
}

/** The models of a service under attack. */
function modelsAt(upstream: number, bystanders: number) {
  const baseUrl = `http://127.0.0.1:${upstream}/v1`
  const sdk = { apiKey: 'canary-key-1234567890', retries: 0, breaker: { failures: 0 } }
  const openai = { adapter: 'openai', baseUrl, retries: 0, breaker: { failures: 0 } }
  return {
    understudy: { adapter: 'understudy' },
    wide: { adapter: 'understudy', contextWindow: 1_000_000 },
    dropping: { adapter: 'understudy', contextWindow: 1_000_000, overflow: 'drop-oldest' },
    claude: { ...sdk, adapter: '@ai-sdk/anthropic', model: 'claude-sonnet-4-5', baseUrl },
    gemini: { ...sdk, adapter: '@ai-sdk/google', model: 'gemini-2.5-flash', baseUrl },
    compatible: { ...sdk, adapter: '@ai-sdk/openai-compatible', model: 'any', baseUrl },
    relay: openai,
    merging: { ...openai, mergeMessages: true },
    bystander: { adapter: 'openai', baseUrl: `http://127.0.0.1:${bystanders}/v1` },
  }
}

/** Starts a service for a row, with its own upstream; the caller closes it. @param bystanders the port of their upstream */
export async function startAttackedService(row: Row, folder: string, bystanders: number): Promise<AttackedService> {
  const upstream = createServer(row.upstream ?? goodUpstream).listen(0, '127.0.0.1')
  await new Promise((resolve) => upstream.once('listening', resolve))
  const { port } = upstream.address() as AddressInfo
  const data = temporaryFolder()
  const databaseUrl = row.engine === 'PostgreSQL' ? await newPostgresDatabase() : undefined
  const environment = {
    DATA_DIR: data.path,
    BOOTSTRAP_KEY: 'the-operator-of-a-house',
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  }
  const keys = await makeAccounts(folder, environment)
  if (row.fill) {
    const sql = openSqlOf(data.path, databaseUrl)
    await row.fill(sql)
    await sql.close()
  }
  writeFileSync(join(data.path, 'models.json'), JSON.stringify({ models: modelsAt(port, bystanders) }))
  const probe = pathToFileURL(join(projectFolder, 'test/support/held-probe.ts')).href
  const args = [...profiling(row.name), '--import', probe, 'src/main.ts']
  const { service, listening } = await startSpawned(process.execPath, args, { folder, environment })
  const close = async () => {
    await service.close()
    await closed(upstream)
    data.remove()
  }
  try {
    return houseOf(await listening, folder, keys, close)
  } catch (error) {
    await close()
    throw error
  }
}

/** Node's options for a CPU profile of the service, which is written into the folder PROFILES; none if PROFILES is not set. */
function profiling(name: string): readonly string[] {
  const folder = process.env['PROFILES']
  if (folder === undefined) return []
  return ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name.replace(/\W+/g, '-')}.cpuprofile`]
}

function houseOf(
  service: SpawnedService,
  folder: string,
  keys: readonly string[],
  closeAll: () => Promise<void>,
): AttackedService {
  const { pid = 0 } = service.process
  return {
    url: service.url,
    folder,
    dataDirectory: service.dataDirectory,
    bystanderKey: keys[0] ?? '',
    largeKey: keys[1] ?? '',
    attackerKeys: keys.slice(2),
    held: (most) => held(service, most),
    cpu: () => cpuOf(pid),
    queued: () => queuedMs(pid),
    memory: () => Number(/VmRSS:\s+(\d+)/.exec(textOf(`/proc/${pid}/status`))?.[1] ?? 0) * 1024,
    isRunning: () => service.process.exitCode === null && service.process.signalCode === null,
    async close() {
      // A service that is still busy may take too long to stop.
      const killing = setTimeout(() => service.process.kill('SIGKILL'), 12_000)
      await closeAll()
      clearTimeout(killing)
    },
  }
}

/** The text of a file in /proc; empty if the process has ended, and on other systems. */
function textOf(path: string): string {
  return existsSync(path) ? readFileSync(path, 'utf8') : ''
}

/** CPU milliseconds of a process's first thread. In `stat` the name of the thread is in brackets, and may contain spaces. */
function cpuOf(pid: number): number {
  const fields = textOf(`/proc/${pid}/task/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * 10
}

async function held({ process, stderr }: SpawnedService, most: number): Promise<Held | undefined> {
  const told = () => stderr().match(/^held .*$/gm) ?? []
  const before = told().length
  process.kill('SIGWINCH')
  for (let waited = 0; waited < most; waited += 10) {
    await sleep(10)
    if (told().length > before) return JSON.parse(told().at(-1)?.slice('held '.length) ?? '')
  }
  return undefined
}

/** Makes the accounts in a data folder or a database with the code of a checkout, and returns their keys. */
async function makeAccounts(folder: string, settings: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const script = join(projectFolder, 'test/support/hostile/accounts.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [script, folder, String(accounts)], {
    cwd: folder,
    env: { ...settings, PATH: process.env['PATH'] },
  })
  return JSON.parse(stdout)
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
