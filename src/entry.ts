import { statSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { dataDirectoryOf, readConfig } from './config.ts'
import { prepareFolder, sentenceOf } from './storage/data-folder.ts'
import { isWindows, userId } from './storage/rights.ts'

// Files and folders that the service and its commands make are for this user only: 0600 and 0700.
process.umask(0o077)
const words = process.argv.slice(2)
// The exit code is 0 for success, 1 for a refusal or a failure, with one clear sentence on stderr, and 2 for wrong usage.
try {
  // Serving needs no parser of the command line, and starts quicker without loading one.
  if (words.length === 0 || (words.length === 1 && words[0] === 'serve')) {
    await startServing()
  } else {
    useCompiled(dataDirectoryOf(process.env))
    const { runCommand } = await import('./command-line.ts')
    process.stdout.on('error', reportUnprinted)
    // The exit code may be set already: a failed print sets it during the run.
    const code = await runCommand(words, process.env, startServing)
    process.exitCode ||= code
  }
} catch (error) {
  process.stderr.write(`${sentenceOf(error)}\n`)
  process.exitCode = 1
}

/** Reports a failed write to stdout: the disk is full, or a reader such as `head` has ended. */
function reportUnprinted(error: Error): void {
  process.exitCode = 1
  process.stderr.write(`Not everything could be printed on stdout: ${error.message}.\n`)
}

/**
 * Turns on V8's compile cache for the modules that are imported next: from the second run on, a command takes half the time.
 * The cache is used only in an existing data folder that no other user may write to, since the cached code is executed.
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
