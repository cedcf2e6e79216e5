/*
 * Builds the package in a copy of the checkout, which also has files of an owner in each folder, and runs it with the command of the README in an empty folder, with the Node and the npm of the machine.
 * Needs the npm registry, as `npm ci` does.
 */
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, delimiter, dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { canaries } from '../support/image-files.ts'
import { compileCache, projectFolder, spawnService } from '../support/process.ts'
import { answerTo, readme, shownCommands, steadyAnswer } from '../support/readme.ts'
import { temporaryFolder } from '../support/service.ts'

const [, command = ''] = /`(npx .*\/conservatory-[\d.]+\.tgz)`/.exec(readme) ?? []

const { path: folder, remove } = temporaryFolder()
const [checkout, empty] = [join(folder, 'checkout'), join(folder, 'empty')]
let environment: Readonly<Record<string, string>> = {}
let archive = ''

const npm = (...args: readonly string[]): string =>
  // On Windows npm is a script, which only a shell runs.
  execFileSync('npm', args, {
    cwd: checkout,
    env: { ...process.env, ...compileCache },
    encoding: 'utf8',
    shell: process.platform === 'win32',
  }).trim()

/** Copies the checkout without its packages, and puts files of an owner into each of its folders. */
function copyWithCanaries(): void {
  const left = new Set(['node_modules', '.git', 'coverage'].map((name) => join(projectFolder, name)))
  cpSync(projectFolder, checkout, { recursive: true, verbatimSymlinks: true, filter: (path) => !left.has(path) })
  const folders = globSync('**/', { cwd: checkout })
  expect(folders.length).toBeGreaterThan(100)
  for (const place of ['.', ...folders]) {
    for (const name of canaries) {
      const file = join(checkout, place, name)
      if (existsSync(file)) continue
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, '{"canary": "canary"}')
    }
  }
  symlinkSync(join(projectFolder, 'node_modules'), join(checkout, 'node_modules'), 'junction')
}

beforeAll(() => {
  copyWithCanaries()
  archive = npm('run', '--silent', 'package')
  expect(command).toContain(`./${archive}`)
  mkdirSync(empty)
  renameSync(join(checkout, archive), join(empty, archive))
  // npx keeps what it has installed beside npm's cache. Here this is a folder of the trial, with the downloads of the machine.
  mkdirSync(join(folder, 'npm'))
  symlinkSync(join(npm('config', 'get', 'cache'), '_cacache'), join(folder, 'npm', '_cacache'), 'junction')
  // An npm script puts the Node of the checkout first on the PATH; a user of the package has only the Node of the machine.
  const places = (process.env['PATH'] ?? '').split(delimiter).filter((place) => !place.includes('node_modules'))
  environment = {
    PATH: places.join(delimiter),
    npm_config_cache: join(folder, 'npm'),
    npm_config_registry: npm('config', 'get', 'registry'),
    ...compileCache,
  }
})

afterAll(remove)

it('has the files of the project, and no file that an owner put into a folder of the checkout', () => {
  const unpacked = join(folder, 'unpacked')
  mkdirSync(unpacked)
  execFileSync('tar', ['xzf', join(empty, archive), '-C', unpacked])
  const files = globSync('package/**/*', { cwd: unpacked, withFileTypes: true }).filter((entry) => entry.isFile())
  const texts = files.map(({ parentPath, name }) => [name, readFileSync(join(parentPath, name), 'utf8')] as const)
  expect(texts.length).toBeGreaterThan(500)
  expect(texts.filter(([name, text]) => canaries.includes(name) || text.includes('"canary": "canary"'))).toEqual([])
  const cards = globSync('package/data/**/*.json', { cwd: unpacked }).map((path) => basename(path))
  expect(cards.toSorted()).toEqual(['bolt.json', 'fern.json', 'tolliver.json', 'vesper.json'])
})

it('runs in an empty folder: the README’s requests and the page get their answers, commands run, and the end of npx ends it', async () => {
  // An empty DATA_DIR counts as not set, so the data is in the folder itself.
  const settings = { ...environment, DATA_DIR: '' }
  const service = await spawnService('bash', ['-c', `exec ${command}`], { folder: empty, environment: settings })
  onTestFinished(() => void service.process.kill('SIGKILL'))
  const shown = shownCommands()
  expect(shown.some(({ command }) => command.includes('/plants'))).toBe(true)
  expect(shown.some(({ command }) => command.includes('/chat/completions'))).toBe(true)
  for (const each of shown) expect(steadyAnswer(await answerTo(each, service))).toBe(steadyAnswer(each.answer))

  const page = await (await fetch(service.url, { headers: { accept: 'text/html' } })).text()
  const files = [...page.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, path]) => path ?? '')
  expect(files.length).toBeGreaterThan(10)
  const statuses = await Promise.all(files.map(async (path) => (await fetch(`${service.url}/${path}`)).status))
  expect(statuses).toEqual(files.map(() => 200))
  expect((await fetch(`${service.url}/docs/`)).status).toBe(200)
  expect((await fetch(`${service.url}/openapi.json`)).status).toBe(200)

  const env = { ...process.env, ...settings }
  const keys = execFileSync('bash', ['-c', `${command} keys list`], { cwd: empty, env, encoding: 'utf8' })
  expect(keys).toContain('owner')
  expect(readdirSync(join(empty, 'data'))).toContain('conservatory.db')

  service.process.kill('SIGTERM')
  await service.exited
  // The service notices within half a second that npx has ended.
  await vi.waitFor(() => expect(fetch(`${service.url}/livez`)).rejects.toThrow(), { timeout: 20_000 })
})
