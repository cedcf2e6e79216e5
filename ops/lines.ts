import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/*
 * Prints the lines and files of each capability of `src`, and those of `test`. "lean" is a judgement of what a lean version needs,
 * in lines. Another commit is counted beside the files of this folder: node ops/lines.ts COMMIT
 */

/** The capabilities: the beginnings of the paths of their files, and the lines of a lean version. The first that fits counts. */
const capabilities: readonly (readonly [name: string, lean: number, ...paths: readonly string[]])[] = [
  ['page', 9500, 'src/page/'],
  ['understudy', 1600, 'src/models/understudy/'],
  ['AI SDK', 1500, 'src/models/ai-sdk/'],
  ['llama.cpp', 900, 'src/models/llama-cpp/'],
  ['models, routing, upstream', 3200, 'src/models/'],
  ['lore', 1700, 'src/characters/lore/'],
  ['macros', 800, 'src/characters/macros/'],
  ['prompt', 1350, 'src/characters/prompt/'],
  ['cards: formats, library, stores, routes', 4300, 'src/characters/', 'src/pictures/'],
  ['chat, OpenAI’s schemas', 2300, 'src/chat/', 'src/openai/'],
  ['responses', 900, 'src/responses/'],
  ['accounts, keys', 2300, 'src/access/'],
  ['limits', 1200, 'src/limits/'],
  ['ledger', 1500, 'src/usage/'],
  ['audit', 450, 'src/audit/'],
  ['plants, exports, imports', 3800, 'src/plants/'],
  ['care', 1000, 'src/care/'],
  ['PostgreSQL', 1500, 'src/storage/postgres/'],
  ['SQLite, schema, backup', 1500, 'src/storage/'],
  ['check, move, stores', 1100, 'src/stores/'],
  ['workers', 700, 'src/work/'],
  ['http, metrics, configuration, command line', 3200, 'src/'],
  ['tests', 45_000, 'test/'],
]

interface Size {
  lines: number
  files: number
}

/** The sizes of the capabilities, from the paths and texts of all source files. */
function sizesOf(files: readonly (readonly [path: string, text: string])[]): ReadonlyMap<string, Size> {
  const sizes = new Map<string, Size>()
  for (const [path, text] of files) {
    const [name = 'none'] = capabilities.find(([, , ...paths]) => paths.some((each) => path.startsWith(each))) ?? []
    const size = sizes.get(name) ?? { lines: 0, files: 0 }
    size.lines += text.split('\n').length - 1
    size.files++
    sizes.set(name, size)
  }
  return sizes
}

function git(...words: readonly string[]): string {
  return execFileSync('git', words, { encoding: 'utf8', maxBuffer: 256 * 1024 ** 2 })
}

/** The source files of a commit, or of this folder. Fixtures and pictures are not counted. */
function filesOf(commit: string | undefined): readonly (readonly [string, string])[] {
  const list =
    commit === undefined ? git('ls-files', 'src', 'test') : git('ls-tree', '-r', '--name-only', commit, 'src', 'test')
  return list
    .split('\n')
    .filter(
      (path) => /\.(?:ts|cjs|css|html)$/.test(path) && path !== 'src/main.ts' && !path.startsWith('test/fixtures/'),
    )
    .map(
      (path) => [path, commit === undefined ? readFileSync(path, 'utf8') : git('show', `${commit}:${path}`)] as const,
    )
}

const [commit] = process.argv.slice(2)
const now = sizesOf(filesOf(undefined))
const before = commit === undefined ? undefined : sizesOf(filesOf(commit))
const shown = (size: Size | undefined) => (size ? `${size.lines} in ${size.files} files` : '')
console.table(
  capabilities.map(([capability, lean]) => ({
    capability,
    ...(before && { before: shown(before.get(capability)) }),
    now: shown(now.get(capability)),
    lean,
  })),
)
const total = (sizes: ReadonlyMap<string, Size>, isCounted: (name: string) => boolean) => {
  const counted = [...sizes].filter(([name]) => isCounted(name)).map(([, size]) => size)
  return `${counted.reduce((sum, { lines }) => sum + lines, 0)} lines in ${counted.reduce((sum, { files }) => sum + files, 0)} files`
}
for (const [when, sizes] of [
  ['before', before],
  ['now', now],
] as const) {
  if (sizes)
    console.log(`src without the page, ${when}: ${total(sizes, (name) => name !== 'page' && name !== 'tests')}`)
}
