import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { projectFolder } from '../support/process.ts'

/** The folders of `test/` that test no folder of `src/`. */
const withoutSource: ReadonlySet<string> = new Set([
  // Files for tests, such as recorded answers of vendors.
  'fixtures',
  // Tests of everything that is not in src/: documents, workflows, the container, the tests themselves.
  'papers',
  // Helpers that several tests share.
  'support',
  // Long trials: npm run trials.
  'trials',
])
const mostLines = 500

const files = globSync('test/**/*.ts', { cwd: projectFolder }).map((path) => path.replaceAll('\\', '/'))
const textOf = (path: string) => readFileSync(join(projectFolder, path), 'utf8')

it(`no file has more than ${mostLines} lines`, () => {
  expect(files.length).toBeGreaterThan(0)
  const lines = files.map((path) => `${path}: ${textOf(path).split('\n').length - 1}`)
  expect(lines.filter((line) => Number(line.split(': ')[1]) > mostLines)).toEqual([])
})

it('every folder has the name of the folder or of the file of src/ that it tests', () => {
  const folders = [...new Set(files.map((path) => dirname(path.replace(/^test\//, ''))))]
  const lost = folders.filter((folder) => {
    if (withoutSource.has(folder.split('/')[0] ?? '')) return false
    return ![`src/${folder}`, `src/${folder}.ts`].some((path) => existsSync(join(projectFolder, path)))
  })
  expect(lost).toEqual([])
})

it('every test file in test/ itself has the name of the file of src/ that it tests', () => {
  const names = files.filter((path) => dirname(path) === 'test').map((path) => basename(path, '.test.ts'))
  expect(names.filter((name) => !existsSync(join(projectFolder, `src/${name}.ts`)))).toEqual([])
})

it('the index of test/support names every file of the folder once, and no other file', () => {
  const named = [...textOf('test/support/README.md').matchAll(/^- (`.+?`) – /gm)].flatMap(([, names = '']) =>
    names.replaceAll('`', '').split(', '),
  )
  const there = files.filter((path) => dirname(path) === 'test/support').map((path) => basename(path))
  expect(named.toSorted()).toEqual(there.toSorted())
})
