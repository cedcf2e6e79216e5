#!/usr/bin/env node
import { readConfig } from './config.ts'

/** Exit codes: 0 done, 1 refused or failed with one clear sentence, 2 wrong usage. */
const words = process.argv.slice(2)
try {
  // Serving needs no command line to be read, and starts quicker without what reads one.
  if (words.length === 0 || (words.length === 1 && words[0] === 'serve')) {
    const { serve } = await import('./serve.ts')
    await serve(readConfig(process.env))
  } else {
    const { runCommand } = await import('./command-line.ts')
    process.exitCode = await runCommand(process.env)
  }
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
