import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * npm run package: writes conservatory-VERSION.tgz into the checkout, for npx and npm install. Node strips no types under
 * node_modules, so that the package contains the sources as plain JavaScript, in the same folders. It has no lockfile: with
 * one, npm compiles better-sqlite3 although its binaries are in the package.
 */
const project = fileURLToPath(new URL('..', import.meta.url))
const staging = mkdtempSync(join(tmpdir(), 'conservatory-package-'))
const run = (command: string, args: readonly string[], folder: string): string =>
  // npm and tsc are scripts, which Windows starts only through a shell.
  execFileSync(command, args, { cwd: folder, encoding: 'utf8', shell: process.platform === 'win32' })

try {
  run('tsc', ['--project', join('ops', 'tsconfig.package.json'), '--outDir', join(staging, 'src')], project)
  copyFileSync(join(project, 'src', 'launcher.cjs'), join(staging, 'src', 'launcher.cjs'))
  for (const path of [
    'openapi/conservatory.json',
    'openapi/models.schema.json',
    'openapi/reader',
    'data/characters',
    'docs',
    'README.md',
    'CHANGELOG.md',
    'LICENSE',
  ]) {
    // The pictures of the page are larger than all other files, and users of the package have the page itself.
    cpSync(join(project, path), join(staging, path), { recursive: true, filter: (file) => !file.includes('pictures') })
  }
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
