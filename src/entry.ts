import { statSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { dataDirectoryOf, readConfig } from './config.ts'
import { prepareFolder, sentenceOf } from './storage/data-folder.ts'
import { isWindows, userId } from './storage/rights.ts'

// What the service and its commands make is for this user alone: files 0600, folders 0700.
process.umask(0o077)
/** Exit codes: 0 done, 1 refused or failed with one clear sentence, 2 wrong usage. */
const words = process.argv.slice(2)
try {
  // Serving needs no command line to be read, and starts quicker without what reads one.
  if (words.length === 0 || (words.length === 1 && words[0] === 'serve')) {
    await startServing()
  } else {
    useCompiled(dataDirectoryOf(process.env))
    const { runCommand } = await import('./command-line.ts')
    process.stdout.on('error', tellUnprinted)
    // Read after it has run: what could not be printed has set the code meanwhile.
    const code = await runCommand(words, process.env, startServing)
    process.exitCode ||= code
  }
} catch (error) {
  process.stderr.write(`${sentenceOf(error)}\n`)
  process.exitCode = 1
}

/** A full disk, or a reader such as `head` that has ended. */
function tellUnprinted(error: Error): void {
  process.exitCode = 1
  process.stderr.write(`Not everything could be printed on stdout: ${error.message}.\n`)
}

/**
 * Lets the modules that come next be taken compiled, from the second time on: half of what a command takes. Only in a data
 * folder that is there and that nobody else may write to: what lies there is run.
 */
function useCompiled(folder: string): void {
  try {
    const { uid, mode } = statSync(folder)
    if (isWindows || (uid === userId && (mode & 0o022) === 0)) module.enableCompileCache(join(folder, 'cache'))
  } catch {
    // What needs the folder says what is wrong with it.
  }
}

async function startServing(): Promise<void> {
  const config = readConfig(process.env)
  prepareFolder(config.dataDirectory)
  // From the second start on, the modules below come compiled: 100 ms and 10 MB less.
  module.enableCompileCache(join(config.dataDirectory, 'cache'))
  const { serve } = await import('./serve.ts')
  await serve(config)
}
