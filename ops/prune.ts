import { globSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'

/*
 * Deletes files that npm installs and the service never reads: node ops/prune.ts node_modules linux-x64
 * The Dockerfile runs this; docs/decisions/0021-what-is-installed.md has the figures. A pattern that matches nothing is an
 * error, because its package must have changed.
 */

/** The folders of all packages: at the top, under a scope, and within other packages. */
const anyPackage = '{,**/node_modules/}{*,@*/*}'

/** Packages that only the plugin code of `@fastify/swagger-ui` needs. */
const neededByTheReader = [
  '@fastify/{accept-negotiator,send,static}',
  '@isaacs',
  '@lukeed',
  'balanced-match',
  'brace-expansion',
  'content-disposition',
  'depd',
  'escape-html',
  'glob',
  'http-errors',
  'inherits',
  'lru-cache',
  'mime',
  'minimatch',
  'minipass',
  'openapi-types',
  'path-scurry',
  'setprototypeof',
  'statuses',
  'toidentifier',
  'yaml',
]

/** The patterns to delete, each with the reason why the service does not need the files. */
function deletions(platform: string): readonly (readonly [pattern: string, reason: string])[] {
  return [
    [`better-sqlite3/prebuilds/!(${platform}).node`, 'SQLite for other platforms'],
    ['better-sqlite3/{binding.gyp,deps,src}', "SQLite's sources: the prebuilt one is used"],
    ['node-addon-api', 'headers for compiling SQLite'],
    ['gpt-tokenizer/{cjs,src}', 'code in other forms'],
    ['gpt-tokenizer/esm/!(encodingParams|package.json)', 'code that is not used: only the pattern of words is'],
    ['gpt-tokenizer/data/!(o200k_base.tiktoken)', 'other encodings: tokens are counted in o200k_base alone'],
    [`{${neededByTheReader.join(',')}}`, 'dependencies of Swagger UI as a plugin: the service sends its files itself'],
    [
      '@fastify/swagger-ui/static/{swagger-ui,swagger-ui-standalone-preset}.js',
      'the page without its libraries, and a bar',
    ],
    ['**/*.{ts,cts,mts}', 'types and sources: under node_modules Node runs no TypeScript'],
    ['**/*.map', 'source maps'],
    [`${anyPackage}/{test,tests,bench,benchmark,benchmarks,example,examples,docs}`, 'tests and examples of packages'],
    ['**/*.{md,markdown}', 'documents, but for licences'],
  ]
}

const licence = /^(?:licen[cs]e|notice|copying).*\.(?:md|markdown)$/i

const [folder, platform] = process.argv.slice(2)
if (
  folder === undefined ||
  platform === undefined ||
  !globSync(join(folder, 'better-sqlite3', 'prebuilds', `${platform}.node`))[0]
) {
  throw new Error(
    'Give a node_modules folder and a platform that better-sqlite3 has a build for: node ops/prune.ts node_modules linux-x64',
  )
}
for (const [pattern, reason] of deletions(platform)) {
  const found = globSync(pattern, { cwd: folder }).filter((path) => !licence.test(basename(path)))
  if (found.length === 0)
    throw new Error(`${pattern} (${reason}) is nowhere in ${folder}: take the line out of ops/prune.ts, or mend it.`)
  for (const path of found) rmSync(join(folder, path), { recursive: true, force: true })
}
