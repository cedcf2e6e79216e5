import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checked, textOf } from '../support/operations.ts'
import { compileCache, projectFolder } from '../support/process.ts'

/*
 * Builds the image from the Dockerfile and runs its content: npm run trials -- image
 * Needs root on Debian, with debootstrap and buildah installed; takes five to ten minutes. The base image of the Dockerfile
 * exists only in a registry of images. In its place, the trial makes an image of the same name: a minimal Debian with npm and
 * the Node that package.json pins. With TRIAL_CACHE=FOLDER this base image is kept in that folder for the next run; by default
 * it is removed.
 */

/** The maximum size of `/app` on disk, in megabytes of 10^6 bytes. */
const maxMegabytes = 75
const npmVersion = '11.21.2'
/** The user of the image. */
const user = 1000

const { optionalDependencies } = checked(
  Type.Object({ optionalDependencies: Type.Record(Type.String(), Type.String()) }),
  JSON.parse(textOf('package.json')),
)
const nodePackage = `node-linux-${process.arch}`
const nodeVersion = optionalDependencies[nodePackage] ?? ''
/** The base image in the Dockerfile. */
const base = /^FROM (node:\S+)$/m.exec(textOf('Dockerfile'))?.[1] ?? ''

const home = join(tmpdir(), `conservatory-image-${process.pid}`)
const cache = process.env['TRIAL_CACHE'] ?? home
const storage = ['--storage-driver', 'vfs', '--root', join(home, 'storage'), '--runroot', join(home, 'run')]

function run(command: string, ...args: readonly string[]): string {
  return execFileSync(command, args, {
    env: { ...process.env, ...compileCache },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 2 ** 26,
  }).trim()
}

function buildah(...args: readonly string[]): string {
  return run('buildah', ...storage, ...args)
}

/** Makes the archive of the base image, unless it is cached. @returns its path */
function baseArchive(): string {
  const archive = join(cache, `bookworm-node-${nodeVersion}-npm-${npmVersion}-${process.arch}.tar`)
  if (existsSync(archive)) return archive
  const root = join(home, 'base')
  run('debootstrap', '--variant=minbase', 'bookworm', root)
  const prefix = join(root, 'usr', 'local')
  run('npm', 'install', '--global', '--prefix', prefix, `npm@${npmVersion}`, `${nodePackage}@${nodeVersion}`)
  run('chroot', root, 'useradd', '--uid', String(user), '--create-home', 'node')
  mkdirSync(cache, { recursive: true })
  run('tar', '-C', root, '-cf', `${archive}.unfinished`, '.')
  renameSync(`${archive}.unfinished`, archive)
  rmSync(root, { recursive: true })
  return archive
}

/** Adds the base image to buildah's storage, under the name in the Dockerfile. */
function putBase(): void {
  const container = buildah('from', 'scratch')
  buildah('add', '--quiet', container, baseArchive(), '/')
  // The build runs offline: npm ci in the checkout has already put the packages into npm's cache.
  const settings = { cache: '/npm-cache', offline: 'true', registry: run('npm', 'config', 'get', 'registry') }
  const environment = Object.entries(settings).flatMap(([name, value]) => ['--env', `npm_config_${name}=${value}`])
  buildah('config', ...environment, container)
  buildah('commit', '--quiet', '--rm', container, `docker.io/library/${base}`)
}

const imageConfig = Type.Object({
  Env: Type.Array(Type.String()),
  Cmd: Type.Array(Type.String()),
  User: Type.String(),
  WorkingDir: Type.String(),
  Volumes: Type.Record(Type.String(), Type.Object({})),
  Healthcheck: Type.Object({ Test: Type.Array(Type.String()) }),
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** The beginning of a command line that runs a program as the image's user, without any capability or a way to gain one. */
const withoutRights = [
  'setpriv',
  `--reuid=${user}`,
  `--regid=${user}`,
  '--clear-groups',
  '--inh-caps=-all',
  '--bounding-set=-all',
  '--no-new-privs',
]

describe('the image', () => {
  let root = ''
  let config = checked(imageConfig, {
    Env: [],
    Cmd: [],
    User: '',
    WorkingDir: '',
    Volumes: {},
    Healthcheck: { Test: [] },
  })
  let service: ChildProcess | undefined
  let printed = ''
  let url = ''
  const key = 'a-key-of-the-caller-0123456789'

  beforeAll(() => {
    const missing = ['buildah', 'debootstrap'].filter((name) => spawnSync('which', [name]).status !== 0)
    if (missing.length > 0)
      throw new Error(`This trial needs ${missing.join(' and ')}. Run: apt-get install ${missing.join(' ')}`)
    if (process.getuid?.() !== 0) throw new Error('This trial mounts file systems. Run it as root.')
    mkdirSync(home)
    putBase()
    const [from, to] = [run('npm', 'config', 'get', 'cache'), '/npm-cache']
    const build = ['--isolation', 'chroot', '--pull-never', '--format', 'docker', '--volume', `${from}:${to}`]
    buildah('build', ...build, '--tag', 'conservatory', projectFolder)
    const inspected: { Docker: { config: unknown } } = JSON.parse(buildah('inspect', '--type', 'image', 'conservatory'))
    config = checked(imageConfig, inspected.Docker.config)
    root = buildah('mount', buildah('from', '--pull-never', 'localhost/conservatory'))
  }, 1_200_000)

  afterAll(async () => {
    if (service?.exitCode === null && service.signalCode === null) {
      service.kill('SIGKILL')
      await new Promise((resolve) => service?.once('exit', resolve))
    }
    spawnSync('buildah', [...storage, 'umount', '--all'])
    spawnSync('buildah', [...storage, 'rm', '--all'])
    rmSync(home, { recursive: true, force: true })
  })

  /** Runs a command in the mount namespace of the service, with the rights of the service. */
  function beside(...command: readonly string[]) {
    const within = ['--target', String(service?.pid), '--mount', '--root', `--wd=/proc/${service?.pid}/root/app`]
    const env = environment()
    return spawnSync('nsenter', [...within, ...withoutRights, ...command], { env, encoding: 'utf8', timeout: 20_000 })
  }

  function environment(): Record<string, string> {
    const own = config.Env.filter((pair) => !pair.startsWith('npm_config_'))
    const port = new URL(url).port
    const pairs = own.map((pair): [string, string] => [
      pair.slice(0, pair.indexOf('=')),
      pair.slice(pair.indexOf('=') + 1),
    ])
    return { ...Object.fromEntries(pairs), HOST: '127.0.0.1', PORT: port, BOOTSTRAP_KEY: key }
  }

  test(`has an /app of at most ${maxMegabytes} MB, and prints the sizes of its parts`, () => {
    const kilobytes = (path: string) => Number(run('du', '-sk', join(root, path)).split('\t')[0])
    const parts = ['app/node_modules', 'app/src', 'app/openapi', 'app/data', 'app']
    for (const part of parts) process.stdout.write(`  ${part}: ${((kilobytes(part) * 1024) / 1e6).toFixed(1)} MB\n`)
    expect(kilobytes('app') * 1024).toBeLessThanOrEqual(maxMegabytes * 1e6)
    expect(run('chroot', root, 'node', '--version')).toBe(`v${nodeVersion}`)
  })

  test('runs as an ordinary user, and has a volume for its data', () => {
    expect([config.User, config.WorkingDir, Object.keys(config.Volumes)]).toEqual(['node', '/app', ['/data']])
    expect(run('chroot', root, 'id', '-u', config.User)).toBe(String(user))
  })

  test('starts on a read-only root file system, with no capability and no way to gain one', async () => {
    url = `http://127.0.0.1:${await freePort()}`
    const [data, configured] = [join(home, 'data'), join(home, 'config')]
    for (const folder of [data, join(configured, 'characters')]) mkdirSync(folder, { recursive: true })
    chownSync(data, user, user)
    chmodSync(home, 0o755)
    const fern = join(projectFolder, 'data', 'characters', 'fern.json')
    const card: { data: { name: string } } = JSON.parse(readFileSync(fern, 'utf8'))
    writeFileSync(
      join(configured, 'characters', 'moss.json'),
      JSON.stringify({ ...card, data: { ...card.data, name: 'Moss' } }),
    )
    cpSync(join(projectFolder, 'ops', 'ollama', 'models.json'), join(configured, 'models.json'))
    // The mount namespace ends with the process, so that nothing stays mounted.
    const script = `set -e
      mount --bind "$1" "$1"
      mount --bind "$2" "$1/data"
      mount --bind "$3" "$1/config"
      mount --bind /dev "$1/dev"
      mount -t proc none "$1/proc"
      mount -t tmpfs none "$1/tmp"
      mount -o remount,bind,ro "$1/config"
      mount -o remount,bind,ro "$1"
      shift 3
      exec "$@"`
    const setUp = ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', root, data, configured]
    // `env -C` sets the working folder, which is WORKDIR of the image.
    const begin = ['chroot', root, ...withoutRights, 'env', '-C', config.WorkingDir]
    service = spawn('unshare', [...setUp, ...begin, ...config.Cmd], {
      env: environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [service.stdout, service.stderr]) stream?.on('data', (text) => (printed += text))
    const exited = new Promise<never>((_, reject) => service?.once('exit', () => reject(new Error(printed))))
    const listens = async () => {
      while (!printed.includes('listens on')) await new Promise((resolve) => service?.stderr?.once('data', resolve))
    }
    await Promise.race([listens(), exited])
    const status = readFileSync(`/proc/${service.pid}/status`, 'utf8')
    const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1]
    expect([field('Uid'), field('Gid'), field('NoNewPrivs')]).toEqual([String(user), String(user), '1'])
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      expect([set, field(set)]).toEqual([set, '0'.repeat(16)])
    for (const folder of ['/', '/app', '/app/data/characters', '/config', '/home/node', '/var']) {
      expect([folder, beside('touch', `${folder}/written`).status]).toEqual([folder, 1])
    }
    for (const folder of ['/data', '/tmp'])
      expect([folder, beside('touch', `${folder}/written`).status]).toEqual([folder, 0])
  })

  test('answers, counts tokens, shows its page, and reads its models and characters from /config', async () => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const post = (path: string, body: object) =>
      fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    expect((await post('/plants', { name: 'Monstera' })).status).toBe(200)
    const messages = [{ role: 'user', content: 'Why are my leaves turning yellow?' }]
    const chat = await post('/chat/completions', { model: 'understudy', character: 'Moss', messages })
    expect([chat.status, await chat.text()]).toEqual([200, expect.stringMatching(/"total_tokens":\d{3,}/)])
    expect(await (await fetch(`${url}/models`, { headers })).text()).toContain('"llama"')
    const page = await (await fetch(`${url}/docs/`)).text()
    const [, script = ''] = /<script[^>]*\ssrc="([^"]*)"/.exec(page) ?? []
    expect((await (await fetch(new URL(script, `${url}/docs/`))).text()).length).toBeGreaterThan(1_000_000)
  })

  test('passes its own health check, and runs commands', () => {
    const [kind, ...check] = config.Healthcheck.Test
    expect(kind).toBe('CMD')
    expect(beside(...check)).toMatchObject({ status: 0, stderr: '' })
    const unhealthy = beside('env', 'PORT=1', ...check)
    expect(unhealthy.status).toBe(1)
    expect(beside('conservatory', 'keys', 'list')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('owner'),
    })
  })

  test('ends on SIGTERM with exit code 0, and has written only to /data', async () => {
    const ended = new Promise((resolve) => service?.once('exit', (code) => resolve(code)))
    service?.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(existsSync(join(home, 'data', 'conservatory.db'))).toBe(true)
    // The mounts of the service are gone now, so this searches the image itself.
    expect(run('find', root, '-newer', join(home, 'config', 'models.json'), '-type', 'f')).toBe('')
  })
})
