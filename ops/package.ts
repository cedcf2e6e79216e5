import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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

try {
  run('tsc', ['--project', join('ops', 'tsconfig.package.json'), '--outDir', join(staging, 'src')], project)
  copyFileSync(join(project, 'src', 'launcher.cjs'), join(staging, 'src', 'launcher.cjs'))
  for (const path of [
    'src/page/browser',
    'openapi/conservatory.json',
    'openapi/models.schema.json',
    'openapi/reader',
    'data/characters',
    'docs',
    'README.md',
    'CHANGELOG.md',
    'LICENSE',
  ]) {
    // The pictures of the page are left out: they are larger than all other files, and a user can open the page itself.
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
