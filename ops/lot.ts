import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/*
 * Prints random comments, paragraphs and test titles, for a reader who does not know the code: `node ops/lot.ts SEED`. The same
 * seed gives the same texts of the same commit.
 */

/** The number of texts of each kind. */
const comments = 30
const paragraphs = 10
const titles = 10

const project = join(import.meta.dirname, '..')

interface Item {
  readonly place: string
  readonly text: string
}

/** All matches of the pattern in these files. The text is the first group of the pattern, or the whole match. */
function items(files: string, pattern: RegExp, above = (_before: string) => ''): readonly Item[] {
  const names = globSync(files, { cwd: project, exclude: ['**/node_modules/**'] }).toSorted()
  return names.flatMap((name) => {
    const text = readFileSync(join(project, name), 'utf8')
    return [...text.matchAll(pattern)].map((match) => {
      const before = text.slice(0, match.index)
      const line = before.split('\n').length
      return { place: `${name}:${line}`, text: above(before) + (match[1] ?? match[0]).trim() }
    })
  })
}

/** The titles of the `describe` blocks around a test, as they are in the source, each followed by ` > `. */
function groupsAbove(before: string): string {
  const lines = before.split('\n').toReversed()
  let indent = lines[0]?.match(/^ */)?.[0].length ?? 0
  const groups: string[] = []
  for (const line of lines) {
    const [, spaces = '', title] = /^( *)describe(?:\.\w+\(.*\))?\((['"`].*['"`]),/.exec(line) ?? []
    if (title === undefined || spaces.length >= indent) continue
    indent = spaces.length
    groups.unshift(`${title} > `)
  }
  return groups.join('')
}

/** Pseudo-random numbers from 0 to 1 (mulberry32). */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    yield ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function draw(all: readonly Item[], count: number, random: Generator<number, never>): readonly Item[] {
  const left = [...all]
  return Array.from({ length: Math.min(count, left.length) }, () =>
    left.splice(Math.floor(random.next().value * left.length), 1),
  ).flat()
}

const random = numbers(Number(process.argv[2] ?? Date.now()))
const lots = {
  // A comment is a block, or consecutive lines with //.
  comments: draw(
    items('{src,test,bench,ops,openapi}/**/*.{ts,cjs}', /^[ \t]*(\/\*[\s\S]*?\*\/|\/\/.*(?:\n[ \t]*\/\/.*)*)/gm),
    comments,
    random,
  ),
  // A paragraph is prose, and no heading, list, table or code.
  paragraphs: draw(items('{*.md,docs/**/*.md}', /(?<=\n\n)((?:[A-Z*`[].*\n)(?:(?![|#`]).+\n)*)/g), paragraphs, random),
  // The title of a test with a table of several lines comes after `])(`.
  titles: draw(
    items('test/**/*.ts', /(?:\b(?:it|test)(?:\.each\([^\n]*\))?|^[ \t]*\]\))\(\s*(['"`].*?['"`]),/gm, groupsAbove),
    titles,
    random,
  ),
}
for (const [kind, lot] of Object.entries(lots)) {
  console.log(`# ${kind}\n`)
  for (const { place, text } of lot) console.log(`${place}\n${text}\n`)
}
