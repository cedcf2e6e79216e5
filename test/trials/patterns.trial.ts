import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { installPackages } from '../support/installed-packages.ts'
import { patternsBuiltBy, patternsOfService } from '../support/patterns.ts'

/*
 * No regular expression of the service may need more than linear time in the length of a caller's text. `recheck` (MIT) looks for
 * a text for which a search needs polynomial or exponential time. It judges one search, so a search that `matchAll` repeats at
 * each letter is not found. The patterns are all literals, and those that `new RegExp` makes while a file is loaded. Needs the
 * npm registry, and some four minutes of CPU time.
 *
 *   FILES=card|lore        only files whose paths match
 */

/** Without its optional packages, which are programs of 30 MB for Java and for each system. */
const packages = ['recheck@4.5.0', '--omit=optional']

/** The part of `recheck` that is used here. */
interface Recheck {
  check(source: string, flags: string, settings: { readonly timeout: number }): Promise<Verdict>
}

interface Verdict {
  readonly status: 'safe' | 'vulnerable' | 'unknown'
  readonly complexity?: { readonly summary: string }
  readonly attack?: { readonly pattern: string }
}

/** The most milliseconds for one pattern. */
const timeout = 120_000

/**
 * Files and declarations with a pattern that `recheck` does not find linear, and the reason why the text is short. A bound of
 * more than 30 repetitions, such as `{0,100}`, counts as no bound.
 */
const bounded: ReadonlyMap<string, string> = new Map([
  ['src/command.ts #sentence', 'the command line of the operator'],
  ['src/page/contents.ts', 'the files of the page, which are part of the service'],
  ['src/storage/postgres/migrate.ts columnsOf', 'the migrations, which are part of the service'],
  ['src/characters/macros/clock.ts', 'a format of at most 200 characters'],
  ['src/models/tokenizer.ts', 'parts of at most 8,192 characters'],
  ['src/models/upstream/error-patterns.ts', "at most 4,000 characters of an upstream's message"],
  ['src/models/upstream/own-texts.ts keysAndAddresses', "at most 8,000 characters of an upstream's message"],
  ['src/models/upstream/own-texts.ts urls', "at most 8,000 characters of an upstream's message"],
  ['src/models/understudy/tool-call.ts namesIn', 'a question of at most 2,000 characters'],
])

const wanted = new RegExp(process.env['FILES'] ?? '')
const patterns = patternsOfService()
const files = [...new Set(patterns.map(({ file }) => file))].filter((file) => wanted.test(file) && !bounded.has(file))

let folder: ReturnType<typeof installPackages>
let recheck: Recheck

beforeAll(async () => {
  folder = installPackages(packages)
  process.env['RECHECK_BACKEND'] = 'pure'
  const { href } = pathToFileURL(join(folder.path, 'node_modules/recheck/index.js'))
  const module: { readonly default: Recheck } = await import(href)
  recheck = module.default
})

afterAll(() => folder?.remove())

/** A line for each pattern that is not linear. */
async function problemsOf(found: readonly (readonly [place: string, pattern: RegExp])[]): Promise<readonly string[]> {
  const problems: string[] = []
  for (const [place, { source, flags }] of found) {
    // A pattern takes up to half a minute, and the runner waits for messages.
    await setImmediate()
    const { status, complexity, attack } = await recheck.check(source, flags, { timeout })
    if (status === 'safe') continue
    problems.push(`${place}: ${complexity?.summary ?? status}, ${attack?.pattern}: /${source}/${flags}`)
  }
  return problems
}

it.each(files)('the patterns of %s need linear time', async (file) => {
  const ofFile = patterns.filter((pattern) => pattern.file === file)
  const unbounded = ofFile.filter(({ place }) => !bounded.has(place))
  const literals = unbounded.flatMap(({ place, literal }) => (literal ? [[place, literal] as const] : []))
  const hasBuilt = unbounded.some(({ literal }) => literal === undefined)
  const built = hasBuilt ? (await patternsBuiltBy(file)).map((pattern) => [file, pattern] as const) : []
  expect(await problemsOf([...literals, ...built])).toEqual([])
})

it('the table of bounded texts names only files and declarations that have a pattern', () => {
  const places = patterns.flatMap(({ file, place }) => [file, place])
  expect([...bounded.keys()].filter((place) => !places.includes(place))).toEqual([])
})
