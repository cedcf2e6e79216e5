import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { posix } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { valueIn } from '../fields.ts'

/** A file of the page. */
export interface PageFile {
  /** The path in the folder of the page, such as `chat/view.ts`. */
  readonly path: string
  readonly mediaType: string
  readonly text: string
}

/** The document and the files of the page. */
export interface PageContents {
  /** A hash of all files, so that browsers may cache the files of a version for ever. */
  readonly version: string
  /** The HTML document, which links to the files of this version. */
  readonly document: string
  readonly files: readonly PageFile[]
}

const browserFolder = new URL('browser/', import.meta.url)

/** The libraries that the sources or other libraries import by name. */
const libraryNames = [
  ...['preact', 'preact/hooks', '@preact/signals', '@preact/signals-core', 'htm', 'htm/preact'],
  ...['marked', 'uplot', 'eventsource-parser'],
]

/** The path of each library in the folder of the page. */
const libraries: ReadonlyMap<string, string> = new Map(
  libraryNames.map((name) => [name, `libraries/${name.replace('@', '')}/module.js`]),
)

/** For these libraries, browsers get another file than the file that Node resolves. */
const browserModules: Readonly<Record<string, string>> = { uplot: 'uplot/dist/uPlot.iife.min.js' }

const mediaTypes: Readonly<Record<string, string>> = {
  '.ts': 'text/javascript; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/**
 * Reads the page: the sources without types and comments, and the libraries that the sources import. Nothing is bundled. A
 * browser gets a file for each source, so that people can read the running code.
 * @throws Error if a file of the installation is missing
 */
export async function readPage(): Promise<PageContents> {
  const files = [...(await ourFiles()), ...(await libraryFiles())]
  const version = hash('sha256', JSON.stringify(files), 'base64url').slice(0, 16)
  const template = await readFile(new URL('index.html', browserFolder), 'utf8')
  return { version, document: fillIn(template, version, files), files }
}

async function ourFiles(): Promise<PageFile[]> {
  const found = await readdir(browserFolder, { recursive: true, withFileTypes: true })
  const files: PageFile[] = []
  for (const entry of found.toSorted((one, other) => (pathOf(one) < pathOf(other) ? -1 : 1))) {
    const path = pathOf(entry)
    const mediaType = valueIn(mediaTypes, posix.extname(path))
    if (!entry.isFile() || mediaType === undefined || path.endsWith('.d.ts')) continue
    const source = await readFile(new URL(path, browserFolder), 'utf8')
    files.push({ path, mediaType, text: path.endsWith('.ts') ? toScript(path, source) : source })
    // Stripping the types takes a few milliseconds for each file. Other requests run between two files.
    await nextTurn()
  }
  return files
}

/** The path of a file in the folder of the browser's sources, with slashes on every platform. */
function pathOf({ parentPath, name }: { readonly parentPath: string; readonly name: string }): string {
  const folder = parentPath.replaceAll('\\', '/')
  return posix.join(folder.slice(folder.lastIndexOf('/browser') + '/browser/'.length), name)
}

/** Comments that stand alone on their lines. */
const comments = /^[ \t]*(?:\/\*[\s\S]*?\*\/|\/\/.*)$/gm

/** Removes the types and the comments of a source, which are a fifth of the bytes. The line numbers stay the same. */
function toScript(path: string, source: string): string {
  const bare = stripTypeScriptTypes(source).replaceAll(comments, (comment) => comment.replaceAll(/[^\n]+/g, ''))
  return withPaths(path, bare).replaceAll(/[ \t]+$/gm, '')
}

async function libraryFiles(): Promise<PageFile[]> {
  const files: PageFile[] = []
  const wanted = new Map([...libraries].map(([name, path]) => [path, resolved(name)]))
  // An imported module of the same package is added at the end of the map. So the loop also reads this module and its imports.
  for (const [path, place] of wanted) {
    const source = await readFile(place, 'utf8')
    for (const name of partsOf(source)) {
      wanted.set(posix.join(posix.dirname(path), name), new URL(name, place))
    }
    const text = asModule(withPaths(path, source.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')))
    files.push({ path, mediaType: mediaTypes['.js'] ?? '', text })
  }
  const chartStyle = await readFile(new URL(import.meta.resolve('uplot/dist/uPlot.min.css')), 'utf8')
  return [...files, { path: 'libraries/uplot.css', mediaType: mediaTypes['.css'] ?? '', text: chartStyle }]
}

/** Makes a module of the script that defines uPlot, because the module in the package is twice as large. */
function asModule(script: string): string {
  return /^var uPlot\s*=/m.test(script) ? `${script}\nexport default uPlot\n` : script
}

function resolved(name: string): URL {
  return new URL(import.meta.resolve(valueIn(browserModules, name) ?? name))
}

/** The relative imports of a module. */
function partsOf(source: string): string[] {
  return [...source.matchAll(imported)].map(([, , , name = '']) => name).filter((name) => name.startsWith('./'))
}

/** An import or a re-export, with the name of its module. */
const imported = /(\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\n]+)\2/g

/** Replaces the names of libraries by paths, because browsers do not resolve names. */
function withPaths(path: string, source: string): string {
  return source.replaceAll(imported, (whole, before: string, quote: string, name: string) => {
    const library = libraries.get(name)
    if (library === undefined) return whole
    const relative = posix.relative(posix.dirname(path), library)
    return `${before}${quote}${relative.startsWith('.') ? relative : `./${relative}`}${quote}`
  })
}

/** Writes the version and the modules of the first view into the document, so that a browser requests all modules in parallel. */
function fillIn(template: string, version: string, files: readonly PageFile[]): string {
  // Most users see the chat first. `main.ts` imports the chat late, after it has read the scopes of the key, so the chat is
  // added here.
  const modules = new Set([...modulesOf('main.ts', files), ...modulesOf('chat/view.ts', files)])
  modules.delete('main.ts')
  const preloads = [...modules].map((path) => `<link rel="modulepreload" href="page/${version}/${path}">`)
  return template.replace('<!-- modules -->', preloads.join('\n    ')).replaceAll('page/VERSION/', `page/${version}/`)
}

/** A module and all its static imports. */
function modulesOf(entry: string, files: readonly PageFile[]): string[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const found = new Set([entry])
  for (const path of found) {
    for (const [, , , name = ''] of (texts.get(path) ?? '').matchAll(/(\bfrom\s*|\bimport\s*)(["'])(\.[^"'\n]+)\2/g)) {
      const module = posix.join(posix.dirname(path), name)
      if (texts.has(module)) found.add(module)
    }
  }
  return [...found]
}
