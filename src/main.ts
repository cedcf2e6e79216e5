#!/usr/bin/env node
import { CommanderError } from 'commander'
import { createProgram } from './command-line.ts'

/** Exit codes: 0 done, 1 refused or failed with one clear sentence, 2 wrong usage. */
try {
  await createProgram(process.env).parseAsync()
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : 2
  } else {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  }
}
