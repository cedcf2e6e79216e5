import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { conservatory } from '../support/command.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

/** Every command that opens a database, for both engines. */
const commands = [
  'accounts create ann',
  'accounts list --json',
  'accounts suspend ann',
  'accounts resume ann',
  'accounts limit ann --limit plants=500',
  'accounts models ann *',
  'accounts export ann',
  'accounts delete ann',
  'keys create --account ann --scopes chat',
  'keys list',
  'keys rotate cv_ab12 --overlap 60',
  'keys limit cv_ab12 --limit plants=500',
  'keys models cv_ab12 *',
  'keys revoke cv_ab12',
  'plants share --from ann --to ben',
  'plants unshare --from ann --to ben',
  'plants shares',
  'characters import data/characters/fern.json',
  'characters export Fern',
  'characters list',
  'characters test Fern --model understudy',
  'usage',
  'audit',
  'check',
]
/** Further commands, for a SQLite file alone. */
const fileCommands = ['backup FOLDER/copy.db', 'backup --to FOLDER/copies']

describe('a command without a database', () => {
  it.each([...commands, ...fileCommands])('%s names the folder, exits with 1, and makes nothing', async (command) => {
    const folder = join(folderForThisTest(), 'none')
    const sentence = `There is no database in the folder ${folder}. Set DATA_DIR to the data folder of the service, or start the service, which makes a database.\n`
    const words = command.replace('FOLDER', folder).split(' ')
    const settings = { DATA_DIR: folder, DATABASE_URL: '' }
    expect(await conservatory(words, settings)).toStrictEqual({ code: 1, stdout: '', stderr: sentence })
    expect(existsSync(folder)).toBe(false)
  })

  it('finds none in an empty file, and leaves the file empty', async () => {
    const folder = folderForThisTest()
    const file = join(folder, 'conservatory.db')
    writeFileSync(file, '')
    const moved = ['migrate', '--from', `sqlite:${file}`, '--to', `sqlite:${join(folder, 'new', 'conservatory.db')}`]
    for (const words of [['keys', 'list'], ['backup', join(folder, 'copy.db')], ['check'], moved]) {
      const ended = await conservatory(words, { DATA_DIR: folder, DATABASE_URL: '' })
      expect([ended.code, ended.stderr]).toStrictEqual([1, expect.stringContaining(folder)])
    }
    expect(statSync(file).size).toBe(0)
    expect(readdirSync(folder).toSorted()).toStrictEqual(['conservatory.db', 'serve.lock'])
  })

  it('restore checks its file before it makes a folder', async () => {
    const above = folderForThisTest()
    const file = join(above, 'no-backup.db')
    writeFileSync(file, 'no database')
    const ended = await conservatory(['restore', file], { DATA_DIR: join(above, 'none'), DATABASE_URL: '' })
    expect([ended.code, ended.stderr]).toStrictEqual([1, expect.stringContaining(file)])
    expect(readdirSync(above)).toStrictEqual(['no-backup.db'])
  })

  it('names the server, and makes no tables, over PostgreSQL', async () => {
    const url = await newPostgresDatabase()
    const place = new URL(url).host
    for (const command of commands) {
      const ended = await conservatory(command.split(' '), { DATA_DIR: folderForThisTest(), DATABASE_URL: url })
      const sentence = `The database at ${place} has no tables of Conservatory. Check DATABASE_URL, or start the service, which makes the tables.\n`
      expect([command, ended]).toStrictEqual([command, { code: 1, stdout: '', stderr: sentence }])
    }
    const file = join(folderForThisTest(), 'new', 'conservatory.db')
    const moved = await conservatory(['migrate', '--from', url, '--to', `sqlite:${file}`], {})
    expect([moved.code, moved.stderr]).toStrictEqual([1, expect.stringContaining('Check --from')])
    const sql = postgres(url, { max: 1 })
    expect(await sql`SELECT * FROM information_schema.tables WHERE table_schema = 'public'`).toHaveLength(0)
    await sql.end()
  })
})
