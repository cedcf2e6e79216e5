import { execFile } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { describe, expect, it, onTestFinished } from 'vitest'
import { projectFolder } from '../support/process.ts'

/** The part of `biome.json` that says which folder may import which. */
const Rules = Type.Object({
  overrides: Type.Array(
    Type.Object({
      includes: Type.Array(Type.String()),
      linter: Type.Optional(
        Type.Object({
          rules: Type.Object({
            style: Type.Optional(
              Type.Object({
                noRestrictedImports: Type.Optional(
                  Type.Object({
                    options: Type.Object({ patterns: Type.Array(Type.Object({ group: Type.Array(Type.String()) })) }),
                  }),
                ),
              }),
            ),
          }),
        }),
      ),
    }),
  ),
})

const source = join(projectFolder, 'src')
const files = globSync('**/*.{ts,cjs}', { cwd: source }).filter((file) => file !== 'main.ts')
const folders = [...new Set(files.map(dirname))].filter((folder) => folder !== '.').sort()
const { overrides } = Value.Decode(Rules, JSON.parse(readFileSync(join(projectFolder, 'biome.json'), 'utf8')))

/** The rules of one folder of src/: patterns of forbidden imports, and after `!` exceptions from them. */
function rulesOf(folder: string): readonly string[] {
  const [top = ''] = folder.split('/')
  const names = [`src/${folder}/*`, folder === top ? '' : `src/${top}/*/*`]
  const found = overrides.findLast(({ includes }) => includes.some((name) => names.includes(name)))
  return found?.linter?.rules.style?.noRestrictedImports?.options.patterns.flatMap(({ group }) => group) ?? []
}

/** The folders of src/ that the files of a folder import from; `.` is src/ itself. */
function importedBy(folder: string): ReadonlySet<string> {
  const own = files.filter((file) => dirname(file) === folder)
  const names = own.flatMap((file) => [
    ...readFileSync(join(source, file), 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g),
  ])
  return new Set(names.map(([, name = '']) => dirname(join(folder, name))))
}

/**
 * Imports that would be wrong, as pairs of folders: from each folder to src/ itself, and to each folder that imports from this
 * folder. A folder within another folder may import from the outer folder.
 */
function wrongImports(): readonly (readonly [from: string, to: string])[] {
  const back = folders.flatMap((folder) =>
    [...importedBy(folder)]
      .filter((below) => below !== folder && (below === '.' || !folder.startsWith(`${below}/`)))
      .map((below): [string, string] => [below, folder]),
  )
  return [...folders.map((folder): [string, string] => [folder, '.']), ...back]
}

describe('the folders of src/', () => {
  it('each have a rule for imports', () => {
    expect(folders.filter((folder) => rulesOf(folder).length === 0)).toEqual([])
  })

  it('cannot import from above: the linter refuses such a file in each folder', { timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'folders-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    copyFileSync(join(projectFolder, 'biome.json'), join(folder, 'biome.json'))
    const wrong = wrongImports()
    for (const [index, [from, to]] of wrong.entries()) {
      const file = join(folder, 'src', from, `wrong-${index}.ts`)
      mkdirSync(dirname(file), { recursive: true })
      const way = relative(from, join(to, to === '.' ? 'app.ts' : 'wrong.ts')).replaceAll('\\', '/')
      const name = way.startsWith('.') ? way : `./${way}`
      writeFileSync(file, `import type { AppParts } from '${name}'\n\nexport type Wrong = AppParts\n`)
    }
    const biome = join(projectFolder, 'node_modules/@biomejs/biome/bin/biome')
    const words = [
      biome,
      'lint',
      '--only=style/noRestrictedImports',
      '--max-diagnostics=none',
      '--vcs-enabled=false',
      '--reporter=github',
    ]
    const told = await promisify(execFile)(process.execPath, words, { cwd: folder }).then(
      () => '',
      ({ stdout }: { stdout: string }) => stdout,
    )
    const refused = new Set([...told.matchAll(/file=src\/\S*?wrong-(\d+)\.ts/g)].map(([, index]) => Number(index)))
    expect(wrong.filter((_, index) => !refused.has(index)).map((pair) => pair.join(' -> '))).toEqual([])
    expect(refused.size).toBeGreaterThan(folders.length)
  })

  it('have no rule that allows an unused import', () => {
    const idle = folders.flatMap((folder) => {
      const siblings = folders.filter((each) => each.split('/')[0] === folder.split('/')[0])
      const imported = siblings.flatMap((each) => [...importedBy(each)])
      const allowed = rulesOf(folder).flatMap((rule) => {
        const [, up = '', names] = /^!((?:\.\.\/)+)\{?([\w,-]+)\}?\/\*\*$/.exec(rule) ?? []
        return names?.split(',').map((name) => join(folder, up, name)) ?? []
      })
      return allowed
        .filter((name) => !imported.some((each) => each === name || each.startsWith(`${name}/`)))
        .map((name) => `${folder} -> ${name}`)
    })
    expect(idle).toEqual([])
  })

  it.each([
    ['a path that goes down and up again, which the rules do not recognise', /'\.\/\.\.\/|'\.[^'\n]*[^./'\n]\/\.\.\//],
    ["a type by import('…'), which neither the rules nor the search for cycles reads", /\bimport\('[^'\n]+'\)\./],
    ['an export of another file, exported once more', /^export (?:type )?[*{]/m],
    ['process as a property of globalThis', /globalThis\W+process\b/],
  ])('do not contain %s', (_, form) => {
    expect(files.filter((file) => form.test(readFileSync(join(source, file), 'utf8')))).toEqual([])
  })

  it('let commands open their stores without TypeBox, which would cost each command 60 ms', () => {
    const loaded = new Set(['entry.ts', 'command-line.ts', 'stores/open.ts', 'stores/postgres.ts'])
    const ofTypeBox: string[] = []
    // The loop also visits files that are added to the set during the loop.
    for (const file of loaded) {
      const text = readFileSync(join(source, file), 'utf8')
      for (const [, name = ''] of text.matchAll(/^import (?!type\b)[^;]*? from '([^']+)'/gm)) {
        if (name.startsWith('.')) loaded.add(join(dirname(file), name))
        else if (name.startsWith('@sinclair/typebox')) ofTypeBox.push(file)
      }
    }
    expect(loaded).toContain('plants/postgres-transfer.ts')
    expect(ofTypeBox).toEqual([])
  })

  it('import only types from node:http, which costs 30 ms and 3 MB at every start, and never import node:process', () => {
    const wrong = files.filter((file) =>
      /^import (?!type)[^\n]*'node:http'|'node:process'/m.test(readFileSync(join(source, file), 'utf8')),
    )
    expect(wrong).toEqual([])
  })

  it('have no exception from the rules for the length and the complexity of functions', () => {
    const excused = files.filter((file) =>
      /biome-ignore lint\/complexity/.test(readFileSync(join(source, file), 'utf8')),
    )
    expect(excused).toEqual([])
  })
})

describe('ARCHITECTURE.md', () => {
  const map = readFileSync(join(projectFolder, 'ARCHITECTURE.md'), 'utf8')
  const named = [...map.matchAll(/`((?:[\w.-]+\/)*[\w.-]+(?:\/|\.(?:ts|cjs|json|md)))`/g)].map(([, name = '']) => name)

  it('names only existing files and folders', () => {
    const places = [projectFolder, ...['', 'models', 'characters'].map((folder) => join(source, folder))]
    const ofOperators = ['models.json']
    const gone = named.filter(
      (name) => !places.some((place) => existsSync(join(place, name))) && !ofOperators.includes(name),
    )
    expect(gone).toEqual([])
  })

  it('names every folder of src/ and every file beside them', () => {
    const tops = folders.filter((folder) => !folder.includes('/')).map((folder) => `${folder}/`)
    const loose = files.filter((file) => !file.includes('/'))
    expect([...tops, ...loose].filter((name) => !named.includes(name))).toEqual([])
  })

  it('says why each file that reads process does so', () => {
    const readers = overrides.find(({ includes }) => includes.includes('src/entry.ts'))?.includes ?? []
    const told = map.slice(map.indexOf('Few files read'))
    expect(readers.filter((file) => !told.includes(`\`${file.replace('src/', '')}\``))).toEqual([])
    expect(readers.length).toBeGreaterThan(0)
  })
})
