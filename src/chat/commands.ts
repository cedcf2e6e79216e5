import { type Command, InvalidArgumentError } from 'commander'
import type { CharacterStores } from '../characters/command-library.ts'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { printRows } from '../print.ts'
import { counted } from '../text.ts'

interface TestOptions {
  readonly model: string
  readonly account?: string
  readonly json?: true
}

/**
 * Adds the subcommand `test` to the command `characters`. The subcommand is in this folder because it asks a model, as a chat
 * completion does.
 */
export function addCardTestCommand(
  characters: Command,
  config: () => Config,
  withStores: WithStores<CharacterStores>,
): void {
  characters
    .command('test')
    .argument('<name>', 'the name of the character, as in a chat completion')
    .requiredOption('--model <model>', 'the model that plays it', notBlank)
    .option('--account <name>', "search this account's uploads first")
    .option('--json', 'print JSON')
    .description('run the tests in a card (extensions.conservatory.tests), and report which tests pass')
    .action(async (name: string, { model, account, json }: TestOptions) => {
      const { openCommandLibrary } = await import('../characters/command-library.ts')
      await withStores(async (stores) => {
        const commandLibrary = await openCommandLibrary(config(), stores, account)
        const { runCardTests } = await import('./card-tests.ts')
        const results = await runCardTests(
          await commandLibrary.find(name),
          model,
          config(),
          commandLibrary.library.worldBooks,
        )
        printRows(results, json)
        const failed = results.filter(({ passed }) => !passed).length
        if (failed > 0) throw new Error(`${failed} of ${counted(results.length, 'test')} failed.`)
      })
    })
}

function notBlank(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Name a model.')
  return text
}
