import { existsSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { dataDirectoryOf, readConfig } from './config.ts'
import { prepareFolder, sentenceOf } from './storage/data-folder.ts'
import { isClosedFolder, realPathOf } from './storage/rights.ts'

// Only this user may read the files (0600) and folders (0700) that the service and its commands make.
process.umask(0o077)
const words = process.argv.slice(2)
// Exit codes: 0 for success, 1 for a refusal or a failure (with one sentence on stderr), 2 for wrong usage.
try {
  // `serve` needs no parser of the command line, and the service starts faster without loading the parser.
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

/** Reports a failed write to stdout. The disk may be full, or a reader such as `head` may have ended. */
function reportUnprinted(error: Error): void {
  process.exitCode = 1
  process.stderr.write(`Not everything could be printed on stdout: ${error.message}.\n`)
}

/**
 * Turns on V8's compile cache for the modules that are imported next. With a filled cache, a command takes half the time, and the
 * service starts with 100 ms and 10 MB less. Cached code is executed, so the cache is used only if no other user can have written
 * it: both folders belong to this user, and no other user may write to them.
 */
function useCompiled(folder: string): void {
  const parent = realPathOf(folder)
  const cache = join(parent, 'cache')
  if (isClosedFolder(parent) && (!existsSync(cache) || isClosedFolder(cache))) module.enableCompileCache(cache)
}

async function startServing(): Promise<void> {
  const config = readConfig(process.env)
  prepareFolder(config.dataDirectory)
  useCompiled(config.dataDirectory)
  const { serve } = await import('./serve.ts')
  await serve(config)
}
