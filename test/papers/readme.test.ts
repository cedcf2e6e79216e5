import { execFile } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readModels } from '../../src/models/configuration/models-file.ts'
import { compileCache, conservatory, serveForThisTest } from '../support/command.ts'
import { projectFolder, type SpawnedService, spawnService } from '../support/process.ts'
import { type Block, blocksOf, readme, steadyAnswer } from '../support/readme.ts'
import { temporaryFolder } from '../support/service.ts'
import { completion, json, upstreamForThisTest } from '../support/upstream.ts'

const run = promisify(execFile)

/** Pastes shell blocks into one shell, in order, with the address and the key of a service. @returns the output of each block */
async function pasted(blocks: readonly Block[], { url, key }: SpawnedService): Promise<readonly string[]> {
  const { path: folder, remove } = temporaryFolder()
  onTestFinished(remove)
  symlinkSync(join(projectFolder, 'node_modules'), join(folder, 'node_modules'), 'junction')
  const texts = blocks.map(({ text }) => text.replaceAll('http://127.0.0.1:3000', url).replaceAll('cv_…', key))
  const script = texts.map((text) => `${text}printf '\\0'\n`).join('')
  const { stdout } = await run('bash', ['-euc', script], {
    cwd: folder,
    env: { PATH: process.env['PATH'], ...compileCache },
  })
  return stdout.split('\0').slice(0, -1)
}

describe('the README', () => {
  it('has shell blocks that all work when pasted in order: the start into one shell, the others into a second', async () => {
    const shown = blocksOf().filter(({ language }) => language === 'sh')
    const [first, ...others] = shown
    const last = others.pop()
    expect(first?.text).toBe('npm ci && npm start\n')
    // npm ci has run already.
    const service = await spawnService('bash', ['-c', 'exec npm start'])
    const answers = await pasted(others, service)
    expect(answers).toHaveLength(2)
    expect(steadyAnswer(answers[0] ?? '')).toBe(steadyAnswer(others[0]?.output ?? ''))
    expect(answers[1]).toMatch(/^\S.{30,}\n$/)

    const upstream = await upstreamForThisTest(json(completion('Hello from the upstream.')))
    const start = last?.text
      .trim()
      .replace('http://127.0.0.1:11434/v1', upstream.url)
      .replace('npm start', 'exec npm start')
    const plugged = await spawnService('bash', ['-c', start ?? ''])
    const headers = { authorization: `Bearer ${plugged.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'any', messages: [{ role: 'user', content: 'Hello!' }] })
    const reply = await fetch(`${plugged.url}/chat/completions`, { method: 'POST', headers, body })
    expect(await reply.text()).toContain('Hello from the upstream.')
  })

  it('has a models.json that the service accepts', () => {
    const [file] = blocksOf().filter(({ language }) => language === 'json')
    const keys = { OPENAI_API_KEY: 'one', ANTHROPIC_API_KEY: 'two' }
    expect([...readModels(file?.text ?? '', keys).models.keys()]).toContain('best')
  })

  it('has commands between its texts that work beside the service', async () => {
    const { path, remove } = temporaryFolder()
    onTestFinished(remove)
    await serveForThisTest({ DATA_DIR: path })
    const commands = [...readme.matchAll(/`npx conservatory ([^`…]+)`/g)].map(([, words = '']) => words)
    expect(commands.map((words) => words.split(' ').slice(0, 2).join(' '))).toEqual(['keys create', 'models check'])
    for (const words of commands) {
      expect([words, await conservatory(words.split(' '), { DATA_DIR: path })]).toEqual([
        words,
        { code: 0, stdout: expect.stringMatching(/\S/), stderr: expect.any(String) },
      ])
    }
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
