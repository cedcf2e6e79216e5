import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { projectFolder } from '../support/process.ts'
import { answerTo, shownCommands, steadyAnswer } from '../support/readme.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { printedByEach, programsShownIn } from '../support/shown-programs.ts'

const textOf = (path: string) => readFileSync(join(projectFolder, path), 'utf8')

/** Programs that only a trial runs (test/trials/agents.trial.ts), because their packages are too large for every checkout. */
const ofTrials: ReadonlySet<string> = new Set(['OpenAI Agents SDK'])

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

describe.each(['docs/chat.md', 'docs/clients.md', 'docs/plants.md'])('%s', (path) => {
  const guide = textOf(path)

  const programs = programsShownIn(guide).filter(({ title }) => !ofTrials.has(title))
  let printed: readonly string[]

  beforeAll(async () => {
    printed = await printedByEach(programs, service)
  })

  it.each(programs.map((program, index) => ({ ...program, index })))(
    'shows a program that prints the text below it: $title',
    ({ output, index }) => {
      expect(printed[index]).toBe(output)
    },
  )

  it.each(shownCommands(guide))('shows a command with its real answer: $command', async (shown) => {
    expect(steadyAnswer(await answerTo(shown, service))).toBe(steadyAnswer(shown.answer))
  })

  it('has only configurations in YAML that can be read and have the address of the service', () => {
    for (const [, text = ''] of guide.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)) {
      expect(JSON.stringify(parse(text))).toContain('http://127.0.0.1:3000/v1')
    }
  })

  it('links only to existing pages, and the README links to it', () => {
    const links = [...guide.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => link ?? '')
    expect(links.length).toBeGreaterThan(0)
    expect(links.filter((link) => !existsSync(join(projectFolder, 'docs', link)))).toEqual([])
    expect(textOf('README.md')).toContain(`(${path})`)
  })
})

describe('docs/clients.md', () => {
  const recipes = textOf('docs/clients.md').split(/^## /m).slice(1)

  it('says of each recipe that it was tried, or links the documentation of the client', () => {
    expect(recipes.length).toBeGreaterThan(10)
    const marks = recipes.map((recipe) => recipe.split('\n')[2] ?? '')
    expect(marks.filter((mark) => !/^`tried`|^from \[their documentation\]\(https:.+\), not run$/.test(mark))).toEqual(
      [],
    )
  })

  it('names the versions that the tests have', () => {
    const { devDependencies } = JSON.parse(textOf('package.json'))
    const places = ['trials/agents.trial', 'trials/clients.trial', 'support/sillytavern/program']
    const trials = places.map((path) => textOf(`test/${path}.ts`)).join('')
    const named = recipes.flatMap((recipe) =>
      [...recipe.matchAll(/^`tried`.*$/gm)].flatMap(([line]) => line.match(/[\w@/-]+@\d[\d.]*/g) ?? []),
    )
    expect(named.length).toBeGreaterThan(5)
    const tried = Object.entries(devDependencies).map(([name, version]) => `${name}@${version}`)
    expect(named.filter((name) => !tried.includes(name) && !trials.includes(`'${name}'`))).toEqual([])
  })
})
