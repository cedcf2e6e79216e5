import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { conservatory } from '../support/command.ts'
import { temporaryFolder } from '../support/service.ts'

function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

describe('a command', () => {
  it('without its subcommand prints the help on stderr, and creates nothing', async () => {
    const folder = join(folderForThisTest(), 'data')
    for (const group of ['accounts', 'keys', 'plants', 'characters', 'models']) {
      const ended = await conservatory([group], { DATA_DIR: folder })
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toMatch(new RegExp(`^Usage: conservatory ${group} `))
    }
    expect(existsSync(folder)).toBe(false)
  })

  it('that does not exist is reported in one line, with exit code 2', async () => {
    const ended = await conservatory(['key', 'list'], { DATA_DIR: folderForThisTest() })
    const stderr = "Unknown command 'key'. Did you mean keys? See: conservatory --help\n"
    expect(ended).toStrictEqual({ code: 2, stdout: '', stderr })
    const { version }: { readonly version: string } = JSON.parse(readFileSync('package.json', 'utf8'))
    expect(await conservatory(['--version'], {})).toStrictEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  })

  it('is explained by --help at every level, on stdout, with exit code 0, whatever the settings', async () => {
    const folder = join(folderForThisTest(), 'data')
    const asked: readonly (readonly [readonly string[], readonly string[]])[] = [
      [[], ['serve', 'accounts', 'keys']],
      [['serve'], ['run the service']],
      [['accounts'], ['create', 'list', 'suspend', 'resume', 'limit', 'export', 'import', 'delete']],
      [['accounts', 'create'], ['<name>']],
      [['accounts', 'list'], ['--json']],
      [['keys'], ['create', 'list', 'rotate', 'limit', 'revoke']],
      [
        ['keys', 'create'],
        ['--account', '--scopes', '--name', '--expires', 'plants:read'],
      ],
      [
        ['keys', 'list'],
        ['--account', '--json'],
      ],
      [['keys', 'revoke'], ['prefix']],
      [
        ['plants', 'share'],
        ['--from', '--to', '--tag'],
      ],
    ]
    const settings = { DATA_DIR: folder, PORT: 'not a port' }
    const ended = await Promise.all(asked.map(([args]) => conservatory([...args, '--help'], settings)))
    for (const [index, [args, words]] of asked.entries()) {
      const { code, stdout, stderr } = ended[index] ?? {}
      expect({ args, code, stderr }).toStrictEqual({ args, code: 0, stderr: '' })
      expect(stdout).toMatch(new RegExp(`^Usage: ${['conservatory', ...args].join(' ')} `))
      expect(stdout).not.toContain('default: []')
      for (const word of words) expect(stdout).toContain(word)
    }
    expect(existsSync(folder)).toBe(false)
  })
})
