import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { until } from './eventually.ts'
import { freePort } from './postgres.ts'
import { projectFolder } from './process.ts'
import { temporaryFolder } from './service.ts'

/** A balancer from a Debian package, with its configuration from `ops/`. */
export interface LoadBalancer {
  readonly name: string
  /** The name of the Debian package, and the path of its program. */
  readonly package: string
  readonly program: string
  args(file: string): readonly string[]
  /** The configuration, changed to listen on a port and to use these replicas. */
  configuration(port: number, replicas: readonly number[]): string
}

const fileOf = (name: string) => readFileSync(join(projectFolder, 'ops', name), 'utf8')

/** Replaces the three replicas in a file of `ops/` by these ports on loopback. */
function withReplicas(configuration: string, replicas: readonly number[]): string {
  const left = [...replicas]
  return configuration.replaceAll(/\w+\.example:3000/g, () => `127.0.0.1:${left.shift()}`)
}

export const haproxy: LoadBalancer = {
  name: 'HAProxy',
  package: 'haproxy',
  program: '/usr/sbin/haproxy',
  args: (file) => ['-db', '-f', file],
  configuration: (port, replicas) =>
    withReplicas(fileOf('haproxy.cfg').replace('bind :3000', `bind 127.0.0.1:${port}`), replicas),
}

/** Caddy, with the Caddyfile's commented lines for named replicas in place of its lines for containers. */
export const caddy: LoadBalancer = {
  name: 'Caddy',
  package: 'caddy',
  program: '/usr/bin/caddy',
  args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
  configuration: (port, replicas) => {
    const named = fileOf('Caddyfile')
      .replace(/^:3000/m, `http://127.0.0.1:${port}`)
      .replace(/dynamic a \{[^}]*\}/, '')
      .replaceAll(/^(\s+)# (to|health_\w+) /gm, '$1$2 ')
    return `{\n\tadmin off\n}\n${withReplicas(named, replicas)}`
  },
}

/**
 * Starts a balancer in front of replicas, and stops it at the end of the running test.
 * @param replicas the ports of the replicas on loopback
 * @returns the URL of the balancer
 * @throws Error that names the Debian package, if it is not installed
 */
export async function balancerBefore(proxy: LoadBalancer, replicas: readonly number[]): Promise<string> {
  const { name, program } = proxy
  if (!existsSync(program))
    throw new Error(`${program} is missing. Install Debian's package: apt-get install ${proxy.package}.`)
  const folder = temporaryFolder()
  const port = await freePort()
  const file = join(folder.path, 'configuration')
  writeFileSync(file, proxy.configuration(port, replicas))
  const env = { PATH: process.env['PATH'], HOME: folder.path, XDG_DATA_HOME: folder.path }
  const running = spawn(program, [...proxy.args(file)], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const exited = new Promise<void>((resolve) => running.once('exit', () => resolve()))
  onTestFinished(async () => {
    running.kill('SIGKILL')
    await exited
    folder.remove()
  })
  let log = ''
  running.stderr.on('data', (text) => {
    log = `${log}${text}`.slice(-10_000)
  })
  const url = `http://127.0.0.1:${port}`
  await until(async () => {
    if (running.exitCode !== null) throw new Error(`${name} does not start: ${log}`)
    const answer = await fetch(`${url}/readyz`).catch(() => undefined)
    await answer?.text()
    return answer?.status === 200
  })
  return url
}
