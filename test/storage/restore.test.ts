import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations } from '../../src/storage/migrations.ts'
import { compileCache, conservatory } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder } from '../support/process.ts'
import {
  expectWhole,
  fileIn,
  keptIn,
  makeDatabase,
  makeKilled,
  plantsIn,
  restoreStopping,
  stepsOfRestore,
} from '../support/restores.ts'

const names = (kind: string, count: number) => Array.from({ length: count }, (_, index) => `${kind} ${index}`)
const plants = { old: names('Old', 6), restored: names('Restored', 9) }

/** A data folder, and a folder beside it for backups. */
function folders(): { readonly data: string; readonly away: string } {
  const folder = folderForThisTest()
  for (const name of ['data', 'away']) mkdirSync(join(folder, name))
  return { data: join(folder, 'data'), away: join(folder, 'away') }
}

const unfinishedIn = (data: string) => readdirSync(data).filter((file) => file.includes('.part'))

const restore = (file: string, data: string) => conservatory(['restore', file, '--force'], { DATA_DIR: data })

describe('a restore', () => {
  it('reads rows that are only in the log of the source, and does not change the source', async () => {
    const { data, away } = folders()
    const source = makeKilled(away, plants.restored)
    const before = [source, `${source}-wal`].map((file) => readFileSync(file))
    const ended = await restore(source, data)
    expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining(', 9 plants, ') })
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
    expect([source, `${source}-wal`].map((file) => readFileSync(file))).toEqual(before)
    expect(readdirSync(data).toSorted()).toEqual(['conservatory.db', 'serve.lock'])
  })

  it('replaces the target of a symbolic link, and reads the log beside the target of a linked source', async () => {
    const { data, away } = folders()
    const [disk, source] = ['disk', 'source'].map((name) => join(away, name))
    for (const folder of [disk ?? '', source ?? '']) mkdirSync(folder)
    symlinkSync(makeKilled(disk ?? '', plants.old), fileIn(data))
    const link = join(away, 'backup.db')
    symlinkSync(makeKilled(source ?? '', plants.restored), link)
    expect(await restore(link, data)).toMatchObject({ code: 0, stderr: expect.stringContaining(', 9 plants, ') })
    expect(lstatSync(fileIn(data)).isSymbolicLink()).toBe(true)
    expect(plantsIn(fileIn(disk ?? ''))).toEqual(plants.restored)
    const [kept = ''] = keptIn(disk ?? '')
    expect(plantsIn(join(disk ?? '', kept))).toEqual(plants.old)
  })

  it('leaves nothing beside a source that has no log', async () => {
    const { data, away } = folders()
    const source = makeDatabase(away, plants.restored)
    expect(await restore(source, data)).toMatchObject({ code: 0 })
    expect(readdirSync(away)).toEqual(['conservatory.db'])
  })

  it('keeps the old database as one file, with the rows of its log', async () => {
    const { data, away } = folders()
    const source = makeDatabase(away, plants.restored)
    makeKilled(data, plants.old)
    const ended = await restore(source, data)
    const [kept = '', ...others] = keptIn(data)
    expect(others).toEqual([])
    expect(ended).toMatchObject({ code: 0 })
    expect(ended.stderr).toContain(`The database that was there is kept as ${join(data, kept)}.\n`)
    expect(readdirSync(data).toSorted()).toEqual(['conservatory.db', kept, 'serve.lock'].toSorted())
    expect(plantsIn(join(data, kept))).toEqual(plants.old)
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
    // A second restore in the same second keeps the database of the first restore under another name.
    expect(await restore(join(data, kept), data)).toMatchObject({ code: 0 })
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    const both = keptIn(data).map((name) => plantsIn(join(data, name)))
    expect(both).toEqual([plants.old, plants.restored])
  })

  const ways: readonly [what: string, lead: (database: string, way: string) => void][] = [
    ['a symbolic link to it', (database, way) => symlinkSync(database, way)],
    ['a hard link to it', (database, way) => linkSync(database, way)],
    ['a link to its folder', (database, way) => symlinkSync(join(database, '..'), way)],
  ]
  it.each(ways)('of the database itself through %s is refused, and the database stays', async (_what, lead) => {
    const { data, away } = folders()
    makeKilled(data, plants.old)
    const way = join(away, 'way.db')
    lead(fileIn(data), way)
    for (const file of [statSync(way).isDirectory() ? fileIn(way) : way, fileIn(data)]) {
      const ended = await restore(file, data)
      expect(ended).toMatchObject({ code: 1 })
      expect(ended.stderr).toBe(`${file} is ${fileIn(data)}, which a restore writes itself. Name a backup.\n`)
    }
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    expect(keptIn(data)).toEqual([])
  })

  it('of a newer schema is refused, and the database stays', async () => {
    const { data, away } = folders()
    const newer = [...migrations, { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT' }]
    const source = makeDatabase(away, plants.restored, newer)
    makeKilled(data, plants.old)
    expect(await restore(source, data)).toMatchObject({
      code: 1,
      stderr: `${source} was written by a newer version of Conservatory (it has 9999-next). Restore it with that version.\n`,
    })
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    expect(keptIn(data)).toEqual([])
  })

  it('of an older schema replaces a database of a newer schema, and is migrated by the next start', async () => {
    const { data, away } = folders()
    const source = makeDatabase(away, plants.restored, migrations.slice(0, -1))
    makeDatabase(data, plants.old, [...migrations, { name: '9999-next', sql: 'CREATE TABLE next (id INTEGER) STRICT' }])
    const ended = await restore(source, data)
    expect(ended).toMatchObject({ code: 0 })
    expect(ended.stderr).toContain('The backup has an older schema, which the next start brings up to date.\n')
    expect(keptIn(data)).toHaveLength(1)
    const started = openDatabase(fileIn(data))
    expect(started.prepare('SELECT name FROM migrations ORDER BY name').pluck().all()).toEqual(
      migrations.map(({ name }) => name),
    )
    started.close()
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
  })

  it('of a damaged backup or a backup with an unfinished move is refused, and the database stays', async () => {
    const { data, away } = folders()
    makeDatabase(data, plants.old)
    const damaged = join(away, 'damaged.db')
    copyFileSync(makeDatabase(join(away, 'large'), names('Large', 5000)), damaged)
    const bytes = readFileSync(damaged)
    writeFileSync(damaged, bytes.fill('x', bytes.length / 2, bytes.length / 2 + 40_000))
    const cut = join(away, 'cut.db')
    writeFileSync(cut, bytes.subarray(0, bytes.length / 4))
    const moving = makeDatabase(join(away, 'moving'), plants.restored)
    const move = new Database(moving)
    move.exec(
      "CREATE TABLE moves (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT; INSERT INTO moves VALUES ('source', 'there')",
    )
    move.close()
    const [text, empty] = [join(away, 'text.db'), join(away, 'empty.db')]
    writeFileSync(text, 'no database')
    writeFileSync(empty, '')
    for (const [file, sentence] of [
      [text, ' is no database that can be read.'],
      [empty, ' is no database of Conservatory.'],
      [damaged, ' is damaged: '],
      [cut, ' is damaged'],
      [moving, ' has only a part of what is moved into it from there.'],
      [away, 'There is no file '],
    ] as const) {
      const ended = await restore(file, data)
      expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining(sentence) })
      expect(ended.stderr).toContain(file)
    }
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    expect(readdirSync(data)).toEqual(['conservatory.db'])
  })

  it('over a database that cannot be read keeps the files of that database as they are', async () => {
    const { data, away } = folders()
    const source = makeDatabase(away, plants.restored)
    const damaged = Buffer.from('no database any more, '.repeat(1000))
    writeFileSync(fileIn(data), damaged)
    writeFileSync(`${fileIn(data)}-wal`, 'its log')
    expect(await restore(source, data)).toMatchObject({ code: 0 })
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
    const [kept = ''] = keptIn(data)
    expect(readFileSync(join(data, kept))).toEqual(damaged)
    expect(readFileSync(join(data, `${kept}-wal`), 'utf8')).toBe('its log')
  })

  it('does not apply the log of an older database, and keeps the log under another name', async () => {
    const { data, away } = folders()
    makeKilled(data, plants.old)
    const log = readFileSync(`${fileIn(data)}-wal`)
    rmSync(fileIn(data))
    expect(await restore(makeDatabase(away, plants.restored), data)).toMatchObject({ code: 0 })
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
    const [kept = ''] = readdirSync(data).filter((name) => name.endsWith('Z-wal'))
    expect(readFileSync(join(data, kept))).toEqual(log)
  })

  it('is refused while another program has the database open, and a late writer does not write to the new database', async () => {
    const { data, away } = folders()
    const source = makeDatabase(away, plants.restored)
    makeDatabase(data, plants.old)
    const open = new Database(fileIn(data))
    open.prepare('SELECT 1 FROM plants').get()
    const refused = await restore(source, data)
    expect(refused).toMatchObject({
      code: 1,
      stderr: `Another program has the database ${fileIn(data)} open. Try again when it has ended.\n`,
    })
    open.close()
    expect(plantsIn(fileIn(data))).toEqual(plants.old)
    // This connection is open, but reads only after the database is replaced.
    const late = new Database(fileIn(data))
    expect(await restore(source, data)).toMatchObject({ code: 0 })
    expect(() => late.pragma('journal_mode = WAL')).toThrow(
      expect.objectContaining({ code: 'SQLITE_READONLY_DBMOVED' }),
    )
    late.close()
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
  })

  // Each restore runs in a process of its own, which is killed or has a full disk just before a step. A trial covers every step.
  let steps: Promise<readonly string[]> | undefined
  it.each(['rename', 'last rename', 'last fsync', 'fail: last rename'])(
    'that is stopped at its %s leaves the old or the new database, and the next restore succeeds',
    async (step) => {
      const { data, away } = folders()
      const source = makeDatabase(away, plants.restored)
      steps ??= stepsOfRestore(data, source, plants.old)
      const all = await steps
      makeKilled(data, plants.old)
      const name = step.split(' ').at(-1) ?? ''
      const at = 1 + (step.includes('last') ? all.lastIndexOf(name) : all.indexOf(name))
      const isFailing = step.startsWith('fail')
      const ended = await restoreStopping(data, source, isFailing ? `fail:${at}` : String(at))
      expect(ended.code).toBe(isFailing ? 1 : null)
      expect(expectWhole(data, plants)).toBe(step === 'last fsync' ? 'restored' : 'old')
      if (isFailing) expect(unfinishedIn(data)).toEqual([])
      expect(await restore(source, data)).toMatchObject({ code: 0 })
      expect(expectWhole(data, plants)).toBe('restored')
      expect(unfinishedIn(data)).toEqual([])
    },
  )

  it('reads a backup in a read-only folder, and explains why a database with a log cannot be read there', async () => {
    const { data, away } = folders()
    const used = makeDatabase(away, plants.restored)
    const backup = join(away, 'backup.db')
    expect(await conservatory(['backup', backup], { DATA_DIR: away })).toMatchObject({ code: 0 })
    rmSync(join(away, 'serve.lock'), { force: true })
    const fromReadOnly = (file: string) => {
      // Root may write anywhere except on a read-only file system.
      const script =
        'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$0" src/main.ts restore "$2" --force'
      const words = ['-rm', 'sh', '-c', script, process.execPath, away, file]
      const env = { ...process.env, ...compileCache, DATA_DIR: data }
      return spawnSync('unshare', words, { cwd: projectFolder, env, encoding: 'utf8' })
    }
    const restored = fromReadOnly(backup)
    expect(restored).toMatchObject({ status: 0, stderr: expect.stringContaining(', 9 plants, ') })
    expect(fromReadOnly(used)).toMatchObject({
      status: 1,
      stderr: `${used} cannot be read where it is, since this user may not write beside it. Copy it, and ${used}-wal where there is one, to another folder, and give that file.\n`,
    })
    expect(plantsIn(fileIn(data))).toEqual(plants.restored)
  })
})
