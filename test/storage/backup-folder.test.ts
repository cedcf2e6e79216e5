import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { backUpInto } from '../../src/storage/backup.ts'
import { conservatory } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { projectFolder } from '../support/process.ts'
import { fileIn, makeDatabase, plantsIn } from '../support/restores.ts'

describe('backup --to', () => {
  it('names a backup by its time, and keeps the newest backups with such names', async () => {
    const data = folderForThisTest()
    makeDatabase(data, ['a', 'b'])
    const to = join(data, 'out')
    mkdirSync(to)
    const others = ['conservatory-2020.db', 'notes.txt', 'x-conservatory-20200101T000000Z.db', 'conservatory.db']
    for (const name of others) writeFileSync(join(to, name), 'mine')
    for (let day = 1; day <= 4; day++) backUpInto(fileIn(data), to, undefined, Date.UTC(2026, 10, day, 2, 30))
    const { code, stderr } = await conservatory(['backup', '--to', to, '--keep', '2'], { DATA_DIR: data })
    expect(code).toBe(0)
    const [, made = ''] = /^The backup (\S+) is good: /.exec(stderr) ?? []
    expect(made).toMatch(/\/out\/conservatory-\d{8}T\d{6}Z\.db$/)
    expect(plantsIn(made)).toStrictEqual(['a', 'b'])
    const kept = ['conservatory-20261104T023000Z.db', made.slice(to.length + 1)]
    expect(readdirSync(to).toSorted()).toStrictEqual([...others, ...kept].toSorted())
    expect(stderr.match(/The older backup .*20261103T023000Z\.db is removed\./g)).toHaveLength(1)
  })

  it('never removes the new backup, also if others have later times in their names', () => {
    const data = folderForThisTest()
    makeDatabase(data, ['a'])
    const to = join(data, 'out')
    for (const year of [2031, 2032]) backUpInto(fileIn(data), to, undefined, Date.UTC(year, 0, 1))
    const { file, removed } = backUpInto(fileIn(data), to, 2, Date.UTC(2026, 0, 1))
    expect(removed).toEqual([join(to, 'conservatory-20310101T000000Z.db')])
    expect(plantsIn(file)).toStrictEqual(['a'])
    expect(backUpInto(fileIn(data), to, 1, Date.UTC(2026, 0, 2)).removed).toHaveLength(2)
  })

  it('removes nothing when the backup fails', async () => {
    const data = folderForThisTest()
    makeDatabase(data, ['a'])
    const to = join(data, 'out')
    for (let day = 1; day <= 2; day++) backUpInto(fileIn(data), to, undefined, Date.UTC(2026, 10, day))
    writeFileSync(fileIn(data), 'no database')
    expect(await conservatory(['backup', '--to', to, '--keep', '1'], { DATA_DIR: data })).toMatchObject({ code: 1 })
    expect(readdirSync(to)).toHaveLength(2)
  })

  it.each([
    [[], /^Give either a file, or a folder with --to\. /],
    [['file.db', '--to', 'folder'], /^Give either a file, or a folder with --to\. /],
    [['file.db', '--keep', '3'], /^--keep goes with --to/],
    [['--to', 'folder', '--keep', '0'], /Give a whole number from 1 to 999999\. /],
  ])('refuses %j', async (words, sentence) => {
    const ended = await conservatory(['backup', ...words], { DATA_DIR: folderForThisTest() })
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toMatch(sentence)
  })
})

/**
 * Begins a copy with this name in another process, and returns when the copy has begun and a garbage collection has run. The
 * process keeps no reference to the copy, and runs until it is killed.
 */
async function copying(target: string) {
  const begin = `
    import { writeFileSync } from 'node:fs'
    import { beginCopy } from './src/storage/copy.ts'
    const { part, scratch } = beginCopy(${JSON.stringify(target)})
    for (const file of [part, scratch]) writeFileSync(file, 'half')
    process.stdin.resume()
    setImmediate(() => {
      gc()
      console.log('begun')
    })`
  const flags = ['--expose-gc', '--input-type=module', '--eval', begin]
  const child = spawn(process.execPath, flags, { cwd: projectFolder })
  await once(child.stdout, 'data')
  return {
    async kill() {
      child.kill('SIGKILL')
      await once(child, 'close')
    },
  }
}

describe('(z) temporary files of a copy', () => {
  it('are removed by the next backup into their folder, if the process of the copy was killed', async () => {
    const data = folderForThisTest()
    makeDatabase(data, ['a'])
    const to = join(data, 'out')
    mkdirSync(to)
    const dead = await copying(join(to, 'dead.db'))
    const running = await copying(join(to, 'running.db'))
    await dead.kill()
    expect(await conservatory(['backup', join(to, 'next.db')], { DATA_DIR: data })).toMatchObject({ code: 0 })
    const files = [
      'next.db',
      'running.db.part',
      'running.db.part.lock',
      'running.db.part.lock-journal',
      'running.db.scratch',
    ]
    expect(readdirSync(to).toSorted()).toStrictEqual(files)
    const { code, stderr } = await conservatory(['backup', join(to, 'running.db')], { DATA_DIR: data })
    expect([code, stderr]).toStrictEqual([
      1,
      `Another program writes ${join(to, 'running.db')} already. Wait for it, or name another file.\n`,
    ])
    expect(readdirSync(to).toSorted()).toStrictEqual(files)
    await running.kill()
  })

  it('that was killed are removed from the data folder by a restore', async () => {
    const data = folderForThisTest()
    makeDatabase(data, ['a'])
    const backup = join(data, 'backup.db')
    expect(await conservatory(['backup', backup], { DATA_DIR: data })).toMatchObject({ code: 0 })
    mkdirSync(join(data, 'backups'))
    await (await copying(join(data, 'backups', 'before-0099.db'))).kill()
    for (const name of ['part', 'before-restore.part']) writeFileSync(`${fileIn(data)}.${name}`, 'half')
    expect(await conservatory(['restore', backup, '--force'], { DATA_DIR: data })).toMatchObject({ code: 0 })
    expect(readdirSync(join(data, 'backups'))).toStrictEqual([])
    expect(readdirSync(data).filter((name) => name.includes('.part'))).toStrictEqual([])
  })
})
