import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * npm run package: writes conservatory-VERSION.tgz into the checkout, for npx and npm install. Node strips no types under
 * node_modules, so the package contains the sources as plain JavaScript, in the same folders. Only the page stays as it is,
 * because the service itself strips its types. The package has no lockfile: with a lockfile, npm would compile better-sqlite3,
 * although the package of better-sqlite3 contains its binaries.
 */
const project = fileURLToPath(new URL('..', import.meta.url))
const staging = mkdtempSync(join(tmpdir(), 'conservatory-package-'))
const run = (command: string, args: readonly string[], folder: string): string =>
  // npm and tsc are scripts, which Windows starts only through a shell.
  execFileSync(command, args, { cwd: folder, encoding: 'utf8', shell: process.platform === 'win32' })

/**
 * The files of the package beside the compiled sources. A checkout also has files of its owner, such as cards and notes, so the
 * package takes no folder as a whole.
 */
const ownFiles = [
  'src/launcher.cjs',
  ...globSync('src/page/browser/**/*.{ts,css,html,svg}', { cwd: project }),
  'openapi/conservatory.json',
  'openapi/models.schema.json',
  'openapi/reader/index.html',
  'openapi/reader/reader.js',
  ...['bolt', 'fern', 'tolliver', 'vesper'].map((name) => `data/characters/${name}.json`),
  'LICENSE',
]

/** README.md, the changelog, and the pages of docs/ that README.md or another such page links to. */
function linkedPages(): ReadonlySet<string> {
  const pages = new Set(['README.md'])
  for (const page of pages) {
    const links = readFileSync(join(project, page), 'utf8').matchAll(/\]\(([^)#:\s]+\.md)/g)
    const paths = [...links].map(([, link = '']) => posix.join(posix.dirname(page), link))
    for (const path of paths) if (path.startsWith('docs/') || path === 'CHANGELOG.md') pages.add(path)
  }
  return pages
}

try {
  run('tsc', ['--project', join('ops', 'tsconfig.package.json'), '--outDir', join(staging, 'src')], project)
  for (const path of [...ownFiles, ...linkedPages()]) cpSync(join(project, path), join(staging, path))
  const {
    private: _,
    scripts,
    devDependencies,
    ...manifest
  } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
  writeFileSync(join(staging, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
  process.stdout.write(run('npm', ['pack', '--silent', '--pack-destination', project], staging))
} finally {
  rmSync(staging, { recursive: true, force: true })
}
