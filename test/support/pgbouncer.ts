import { spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { asUser, freePort, isRoot } from './postgres.ts'
import { temporaryFolder } from './service.ts'

/** The path in Debian's package. */
const program = '/usr/sbin/pgbouncer'

/**
 * Starts a PgBouncer in front of a database, and stops it at the end of the running test. If possible, it uses another server
 * connection for each transaction, and it closes a server connection after two seconds.
 * @param settings lines of PgBouncer's configuration
 * @returns the URL of the database through PgBouncer
 */
export async function pgbouncerForThisTest(
  databaseUrl: string,
  settings: Readonly<Record<string, string>>,
): Promise<string> {
  if (!existsSync(program))
    throw new Error(`${program} is missing. Install Debian's package: apt-get install pgbouncer.`)
  const { hostname, port, username } = new URL(databaseUrl)
  const folder = temporaryFolder()
  const ownPort = await freePort()
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: String(ownPort),
    unix_socket_dir: '',
    auth_type: 'any',
    default_pool_size: '5',
    server_round_robin: '1',
    server_lifetime: '2',
    // The wait after a crash of the server. The default of 15 seconds is longer than any request waits.
    server_login_retry: '1',
    ...settings,
  }
  const file = join(folder.path, 'pgbouncer.ini')
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}\n`)
  writeFileSync(file, `[databases]\n* = host=${hostname} port=${port} user=${username}\n[pgbouncer]\n${lines.join('')}`)
  if (isRoot) {
    chmodSync(folder.path, 0o755)
    chownSync(file, asUser.uid ?? 0, asUser.gid ?? 0)
  }
  const bouncer = spawn(program, [file], { ...asUser, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = new Promise<void>((resolve) => bouncer.once('exit', () => resolve()))
  onTestFinished(async () => {
    bouncer.kill('SIGKILL')
    await exited
    folder.remove()
  })
  let log = ''
  await new Promise<void>((resolve, reject) => {
    bouncer.stderr.on('data', (text) => {
      log = `${log}${text}`.slice(-10_000)
      if (log.includes('process up')) resolve()
    })
    void exited.then(() => reject(new Error(`PgBouncer does not start: ${log}`)))
  })
  const url = new URL(databaseUrl)
  url.port = String(ownPort)
  return url.href
}
