import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ApiError, StorageError } from '../../src/errors.ts'
import { sentenceOf, unwritable } from '../../src/storage/data-folder.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { compileCache } from '../support/command.ts'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

const withCode = (code: string, more: object = {}) => Object.assign(new Error('raw words'), { code, ...more })
const chown =
  /: this user( \(uid \d+\))? may not write there\. Make this user the owner of the folder and its files \(chown -R\), /

describe('a file that cannot be written', () => {
  it.each([
    ['ENOSPC', /: its disk is full\. Make room, /],
    ['EDQUOT', /: its disk is full\. Make room, /],
    ['SQLITE_FULL', /: its disk is full\. Make room, /],
    ['SQLITE_IOERR_SHMSIZE', /: its disk is full\. Make room, /],
    ['EROFS', /: its file system is read-only\. Mount it for writing, /],
    ['EACCES', chown],
    ['EPERM', chown],
    ['SQLITE_READONLY', chown],
    ['SQLITE_READONLY_DIRECTORY', chown],
    ['SQLITE_CANTOPEN', chown],
  ])('is reported with the reason and a way out: %s', (code, reason) => {
    expect(unwritable('/data', withCode(code))?.message).toMatch(
      new RegExp(`^The data folder /data cannot be written${reason.source}or set DATA_DIR to another folder\\.$`),
    )
    const ends = new RegExp(`cannot be written${reason.source}and try again\\.$`)
    expect(sentenceOf(withCode(code))).toMatch(ends)
    const copied = sentenceOf(withCode(code, { path: '/from', dest: '/to' }))
    expect(copied).toMatch(ends)
    expect(copied).toMatch(/^\/to /)
  })

  it('is not reported for other errors, which have their own messages', () => {
    expect(unwritable('/data', withCode('ENOENT'))).toBeUndefined()
    expect(sentenceOf(withCode('ENOENT'))).toBe('raw words')
    expect(sentenceOf(new StorageError('Said already.'))).toBe('Said already.')
    expect(sentenceOf('a text')).toBe('a text')
    expect(sentenceOf(new ApiError(507, 'disk_full', 'Tell the operator.'))).toMatch(/^The data folder .+ disk is full/)
  })
})

describe.skipIf(process.platform !== 'linux')('stdout that takes nothing', () => {
  it('ends a command with exit code 1, and stderr names the key that could not be shown', () => {
    const { path, remove } = temporaryFolder()
    const run = (line: string) => {
      const env = { ...process.env, ...compileCache, DATA_DIR: path, DATABASE_URL: '' }
      const script = `"$0" src/main.ts ${line}`
      return execFileSync('bash', ['-o', 'pipefail', '-c', `{ ${script}; } 2>&1 || echo "exit $?"`, process.execPath], {
        cwd: projectFolder,
        env,
        encoding: 'utf8',
      })
    }
    try {
      openDatabase(join(path, 'conservatory.db')).close()
      run('accounts create ann')
      expect(run('keys create --account ann --scopes chat > /dev/full')).toMatch(
        /^Not everything could be printed on stdout: ENOSPC: .+\.\nThe key (cv_\w{8}) is made, but could not be shown\. Revoke it: conservatory keys revoke \1\nexit 1\n$/,
      )
      expect(run('accounts list --json > /dev/full')).toMatch(
        /^Not everything could be printed on stdout: ENOSPC: .+\.\nexit 1\n$/,
      )
    } finally {
      remove()
    }
  })
})
