import { statSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { dataDirectoryOf, readConfig } from './config.ts'
import { prepareFolder, sentenceOf } from './storage/data-folder.ts'
import { isWindows, userId } from './storage/rights.ts'

// Files and folders that the service and its commands make are for this user only: 0600 and 0700.
process.umask(0o077)
/** Exit codes: 0 done, 1 refused or failed with one clear sentence, 2 wrong usage. */
const words = process.argv.slice(2)
try {
  // Serving needs no parser of the command line, and starts quicker without loading one.
  if (words.length === 0 || (words.length === 1 && words[0] === 'serve')) {
    await startServing()
  } else {
    useCompiled(dataDirectoryOf(process.env))
    const { runCommand } = await import('./command-line.ts')
    process.stdout.on('error', reportUnprinted)
    // ||= after the run: a failed print may have set the exit code meanwhile.
    const code = await runCommand(words, process.env, startServing)
    process.exitCode ||= code
  }
} catch (error) {
  process.stderr.write(`${sentenceOf(error)}\n`)
  process.exitCode = 1
}

/** The cause is a full disk, or a reader such as `head` that has ended. */
function reportUnprinted(error: Error): void {
  process.exitCode = 1
  process.stderr.write(`Not everything could be printed on stdout: ${error.message}.\n`)
}

/**
 * Turns on V8's compile cache for the modules that are imported next: from the second run on, a command takes half the time.
 * Only in an existing data folder that no other user may write to, since the cached code is executed.
 */
function useCompiled(folder: string): void {
  try {
    const { uid, mode } = statSync(folder)
    if (isWindows || (uid === userId && (mode & 0o022) === 0)) module.enableCompileCache(join(folder, 'cache'))
  } catch {
    // The code that needs the folder reports the fault.
  }
}

async function startServing(): Promise<void> {
  const config = readConfig(process.env)
  prepareFolder(config.dataDirectory)
  // From the second start on, the modules below come from the compile cache: 100 ms and 10 MB less.
  module.enableCompileCache(join(config.dataDirectory, 'cache'))
  const { serve } = await import('./serve.ts')
  await serve(config)
}
