import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { printRows } from '../print.ts'

/** Adds `models …` to the command line. */
export function addModelCommands(program: Command, config: () => Config): void {
  program
    .command('models')
    .description('look after the models behind the service')
    .command('check')
    .option('--json', 'print JSON')
    .description('ask each configured model for one word, and report which answer')
    .action(async (options: { json?: true }) => {
      const { checkModels, notAsked } = await import('./model-check.ts')
      const rows = await checkModels(config())
      printRows(rows, options.json)
      if (rows.some(({ state }) => state !== 'ok' && state !== notAsked)) throw new Error('Not every model answers.')
    })
}
