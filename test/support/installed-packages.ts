import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compileCache } from './process.ts'
import { temporaryFolder } from './service.ts'

/**
 * Installs packages from npm into a separate folder, without their install scripts. The packages are not dependencies of the
 * project. The caller removes the folder.
 * @param packages their names with exact versions
 */
export function installPackages(packages: readonly string[]): ReturnType<typeof temporaryFolder> {
  const folder = temporaryFolder()
  writeFileSync(join(folder.path, 'package.json'), '{}')
  execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', ...packages], {
    cwd: folder.path,
    env: { ...process.env, ...compileCache },
    // On Windows npm is a script, which only a shell runs.
    shell: process.platform === 'win32',
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return folder
}
