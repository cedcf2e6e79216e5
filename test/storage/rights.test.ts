import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it, onTestFinished } from 'vitest'
import { migrations } from '../../src/storage/migrations.ts'
import { closeToOthers } from '../../src/storage/rights.ts'
import { conservatory, serveForThisTest } from '../support/command.ts'
import { add, folderForThisTest, preset } from '../support/preset-service.ts'
import { compileCache, projectFolder, spawnService } from '../support/process.ts'
import { makeDatabase } from '../support/restores.ts'

const modeOf = (path: string) => (statSync(path).mode & 0o7777).toString(8)

function entriesOf(folder: string): readonly string[] {
  return [folder, ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name))]
}

/** Runs commands one after the other in one process, with a umask that removes no rights. */
function openly(folder: string, commands: readonly (readonly string[])[]) {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], ...compileCache, DATA_DIR: folder }
  const program = `for (const [index, words] of ${JSON.stringify(commands)}.entries()) {
    process.umask(0)
    process.argv.splice(1, Infinity, 'conservatory', ...words)
    await import('./src/entry.ts?' + index)
  }`
  const args = ['--input-type=module', '--eval', program]
  return spawnSync(process.execPath, args, { cwd: projectFolder, env, encoding: 'utf8' })
}

it('only the user of the service may read the files of the service and its commands, whatever the umask is', {
  timeout: 60_000,
}, async () => {
  const folder = folderForThisTest()
  const data = join(folder, 'deep', 'data')
  const away = join(folder, 'away')
  const card = join(folder, 'card.json')
  writeFileSync(card, JSON.stringify({ spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Moss' } }))
  const older = makeDatabase(join(folder, 'older'), ['Older'], migrations.slice(0, -1))
  chmodSync(older, 0o666)
  // With this empty setting, the compile cache is in the data folder too.
  const environment = { DATA_DIR: data, BOOTSTRAP_KEY: preset, NODE_COMPILE_CACHE: '' }
  const service = await spawnService('sh', ['-c', 'umask 0 && exec "$0" src/main.ts', process.execPath], {
    environment,
  })
  expect((await add(service.url, 'Fern')).status).toBe(200)
  const files = ['conservatory.db', 'conservatory.db-wal', 'conservatory.db-shm', 'serve.lock']
  expect(files.map((name) => modeOf(join(data, name)))).toEqual(files.map(() => '600'))
  service.process.kill('SIGTERM')
  expect(await service.exited).toBe(0)
  const plants = join(folder, 'plants.jsonl')
  writeFileSync(plants, (await conservatory(['accounts', 'export', 'owner'], { DATA_DIR: data })).stdout)
  for (const words of [
    ['accounts', 'create', 'guest'],
    ['accounts', 'import', 'guest', plants],
  ]) {
    expect(await conservatory(words, { DATA_DIR: data })).toMatchObject({ code: 0 })
  }
  const commands = [
    ['characters', 'import', card],
    ['backup', join(away, 'backup.db')],
    ['accounts', 'delete', 'guest'],
    ['restore', older, '--force'],
    // This command migrates the restored database.
    ['accounts', 'list'],
  ]
  // The exit code is that of the first failed command.
  expect(openly(data, commands)).toMatchObject({ status: 0, stdout: expect.stringMatching(/^NAME /m) })
  const made = [join(folder, 'deep'), away].flatMap(entriesOf)
  for (const part of [
    '/cache/',
    '/characters/',
    'backups/before-',
    'backups/account-',
    '.before-restore-',
    'backup.db',
  ]) {
    expect(
      made.filter((path) => path.includes(part)),
      part,
    ).not.toEqual([])
  }
  expect(made.filter((path) => modeOf(path) !== (statSync(path).isDirectory() ? '700' : '600'))).toEqual([])
})

it.each([
  ['755', 0],
  ['2755', 0],
  ['775', 1],
  ['757', 1],
  ['1777', 1],
])('an existing data folder keeps its mode %s, and there are %i warnings about it', (mode, count) => {
  const folder = folderForThisTest()
  chmodSync(folder, Number.parseInt(mode, 8))
  const warning = `Others may write to the data folder ${folder} (mode ${mode.padStart(4, '0')}). Let its owner run: chmod go-w ${folder}`
  expect(closeToOthers(folder, join(folder, 'conservatory.db'))).toEqual(count === 0 ? [] : [warning])
  expect(modeOf(folder)).toBe(mode)
})

it('the files beside a database to which a symbolic link leads are closed to others', () => {
  const folder = folderForThisTest()
  const real = join(folder, 'real.db')
  for (const beside of ['', '-wal', '-shm']) writeFileSync(real + beside, '', { mode: 0o644 })
  symlinkSync(real, join(folder, 'conservatory.db'))
  expect(closeToOthers(folder, join(folder, 'conservatory.db'))).toHaveLength(3)
  expect(['', '-wal', '-shm'].map((beside) => modeOf(real + beside))).toEqual(['600', '600', '600'])
})

it('the start removes the rights of other users from a database and the files beside it, and reports the change', async () => {
  const folder = folderForThisTest()
  const path = makeDatabase(folder, ['Moss'])
  chmodSync(path, 0o644)
  const open = new Database(path)
  onTestFinished(() => void open.close())
  open.prepare('SELECT 1 FROM plants').get()
  const files = ['', '-wal', '-shm'].map((beside) => path + beside)
  expect(files.map(modeOf)).toEqual(['644', '644', '644'])
  mkdirSync(join(folder, 'characters'), { mode: 0o755 })
  chmodSync(folder, 0o777)
  const service = await serveForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
  expect(files.map(modeOf)).toEqual(['600', '600', '600'])
  for (const file of files) {
    expect(service.stderr()).toContain(`${file} was open to others (mode 0644), and is not any more (mode 0600).\n`)
  }
  expect(modeOf(join(folder, 'characters'))).toBe('755')
  expect(modeOf(folder)).toBe('777')
  expect(service.stderr().match(/^Others may write to the data folder .*$/gm)).toHaveLength(1)
  await service.close()
  chmodSync(folder, 0o755)
  expect((await serveForThisTest({ DATA_DIR: folder })).stderr()).not.toMatch(/others/i)
})
