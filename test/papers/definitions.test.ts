import { globSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { withRoutes } from '../../openapi/write.ts'
import { readConfig } from '../../src/config.ts'
import { exposedHeaders } from '../../src/http/cors.ts'
import { conservatory } from '../support/command.ts'
import { textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'

/** A page of `docs/`. It defines the names that are code spans of its headings and of the first cells of its tables. */
interface Page {
  readonly path: string
  readonly text: string
  readonly defined: readonly string[]
}

const pages: readonly Page[] = globSync('docs/**/*.md', { cwd: projectFolder }).map((path) => {
  const text = textOf(path).replaceAll(/^```[\s\S]*?^```$/gm, '')
  const places = [...text.matchAll(/^#+ (.+)$|^\| ([^|]+) \|/gm)].map(([, heading, cell]) => heading ?? cell ?? '')
  return { path, text, defined: places.flatMap(codeSpansIn) }
})

function codeSpansIn(text: string): readonly string[] {
  return [...text.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)
}

/** Makes a predicate: a code span is about a name if it is the name, or the name with a query, a value or options. */
function isAbout(name: string): (span: string) => boolean {
  // The letter case of a header does not matter. Only headers have names of small letters and hyphens.
  const isHeader = /^[a-z-]+$/.test(name)
  return (span) => {
    const text = isHeader ? span.toLowerCase() : span
    return text.startsWith(name) && /^[ ?=:]?$/.test(text.charAt(name.length))
  }
}

function settingsOfService(): readonly string[] {
  const asked = new Set<string>()
  const environment = new Proxy<Record<string, string>>(
    {},
    {
      get: (_, name) => {
        asked.add(String(name))
        return undefined
      },
    },
  )
  readConfig(environment)
  // The settings of proxies have a second name in small letters, which the page does not define.
  return [...asked].filter((name) => name === name.toUpperCase())
}

/** The routes, without their aliases (`/v1`, HEAD, a slash at the end) and without the files that a page of the service loads. */
async function routesOfService(): Promise<readonly string[]> {
  const routes: string[] = []
  await withRoutes(
    (app) => app.addHook('onRoute', ({ method, url }) => void routes.push(`${String(method)} ${url}`)),
    () => {},
  )
  return routes
    .filter((route) => !/^HEAD|^\w+ \/v1\/|\*|\.(js|css)$|^\w+ \/.+\/$/.test(route))
    .map((route) => route.replaceAll(/:(\w+)/g, '{$1}'))
}

/** The operator's commands, such as `conservatory keys create`, as `--help` lists them, without `help`. */
async function commandsOfService(path: readonly string[] = []): Promise<readonly string[]> {
  const { stdout } = await conservatory([...path, '--help'], {})
  const [, table = ''] = stdout.split('\nCommands:\n')
  const words = [...table.matchAll(/^ {2}([a-z]+)/gm)].map(([, word = '']) => word).filter((word) => word !== 'help')
  if (words.length === 0) return [['conservatory', ...path].join(' ')]
  const below = await Promise.all(words.map((word) => commandsOfService([...path, word])))
  return below.flat()
}

/** The headers that are not standard HTTP headers: those that CORS exposes to web pages, and those that are named in src/. */
function headersOfService(): readonly string[] {
  const isOwn = (name: string) => /^(x-|ratelimit|idempotency-|trace(parent|state)$)/.test(name)
  const sources = globSync('src/**/*.ts', { cwd: projectFolder, exclude: ['src/page/browser/**'] })
  const literals = sources.flatMap((path) => [...textOf(path).matchAll(/'([\w-]+)'/g)].map(([, name = '']) => name))
  return [...new Set([...exposedHeaders.map((name) => name.toLowerCase()), ...literals.filter(isOwn)])].filter(isOwn)
}

describe.each([
  ['setting', 30, settingsOfService()],
  ['route', 30, await routesOfService()],
  ['command', 25, await commandsOfService()],
  ['header', 15, headersOfService()],
])('each %s', (_, min, names) => {
  it('is defined on one page of docs/, in a heading or in the first cell of a row', () => {
    expect(names.length).toBeGreaterThan(min)
    const places = names.map((name) => [name, pagesThatDefine(name).map(({ path }) => path)] as const)
    expect(places.filter(([, paths]) => paths.length !== 1)).toEqual([])
  })

  it('has a link to its defining page on each other page of docs/ that names it, except decisions', () => {
    const guides = pages.filter(({ path }) => !path.startsWith('docs/decisions/'))
    const unlinked = names.flatMap((name) => {
      const [definition = ''] = pagesThatDefine(name).map(({ path }) => path.replace('docs/', ''))
      return guides
        .filter(({ path }) => path !== `docs/${definition}`)
        .filter(({ text }) => codeSpansIn(text).some(isAbout(name)) && !text.includes(`](${definition}`))
        .map(({ path }) => `${path} names ${name} without a link to ${definition}`)
    })
    expect(unlinked).toEqual([])
  })
})

function pagesThatDefine(name: string): readonly Page[] {
  return pages.filter(({ defined }) => defined.some(isAbout(name)))
}
