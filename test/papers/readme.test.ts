import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { serveForThisTest } from '../support/command.ts'
import { spawnService } from '../support/process.ts'
import { answerTo, readme, shownCommands, steadyAnswer } from '../support/readme.ts'

const run = promisify(execFile)
describe('the README', () => {
  it('shows a session whose commands give the printed answers, after npm ci and npm start', async () => {
    expect(readme).toContain('```sh\nnpm ci && npm start\n```')
    const shown = shownCommands()
    expect(shown.length).toBeGreaterThanOrEqual(3)
    const service = await spawnService('npm', ['start'])
    for (const each of shown) expect(steadyAnswer(await answerTo(each, service))).toBe(steadyAnswer(each.answer))
  })

  it.each<[what: string, settings: Record<string, string>]>([
    ['it made', {}],
    ['BOOTSTRAP_KEY presets, which it does not show', { BOOTSTRAP_KEY: `it's "my" $HOME \\ \`key\`` }],
  ])(
    'prints at the first start two curl lines that work when pasted, with the key that %s',
    async (_what, settings) => {
      const service = await serveForThisTest(settings)
      const lines = service.stderr().match(/^ {2}curl .*$/gm) ?? []
      expect(lines).toHaveLength(2)
      const env = { PATH: process.env['PATH'], ...settings }
      const answers = await Promise.all(lines.map((line) => run('bash', ['-c', `${line.trim()} -s`], { env })))
      expect(JSON.parse(answers[0]?.stdout ?? '')).toEqual({ name: 'Monstera', tag: 'aroid' })
      expect(JSON.parse(answers[1]?.stdout ?? '')).toMatchObject({ object: 'chat.completion', model: 'understudy' })
    },
  )

  it('lists every setting that the service reads, and no other', () => {
    const source = readFileSync(new URL('../../src/config.ts', import.meta.url), 'utf8')
    const read = [...source.matchAll(/(?:text|integer|oneOf)\(\s*'([A-Z_]+)'/g)].map(([, name]) => name)
    const settings = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8')
    const listed = [...settings.matchAll(/^\| `([A-Z_]+)`\s+\|/gm)].map(([, name]) => name)
    expect(listed.toSorted()).toEqual([...new Set(read)].toSorted())
  })

  it('has at most 150 lines, and links the page of each kind of reader', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(151)
    for (const page of ['clients', 'characters', 'operations', 'settings', 'interfaces', 'accounts']) {
      expect(readme).toContain(`(docs/${page}.md)`)
    }
  })

  it('names only existing npm scripts', () => {
    const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    const named = [...readme.matchAll(/npm run ([a-z:]+)/g)].map(([, name]) => name)
    expect(named.length).toBeGreaterThan(0)
    for (const name of named) expect(Object.keys(scripts)).toContain(name)
  })
})
