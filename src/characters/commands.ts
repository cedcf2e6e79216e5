import { type Command, InvalidArgumentError, Option } from 'commander'
import type { AccessStores } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { printRows } from '../print.ts'
import { counted } from '../text.ts'
import type { CharacterStore } from './library/character.ts'
import type { Shelf } from './shelf.ts'

/** The stores as far as these commands use them. */
export interface UsedStores extends AccessStores {
  readonly characters: CharacterStore
}

interface AccountOption {
  readonly account?: string
}

/** Adds `characters …` to the command line. */
export function addCharacterCommands(program: Command, config: () => Config, withStores: WithStores<UsedStores>): void {
  const characters = program.command('characters').description('look after characters and their cards')
  const account = (what: string) => new Option('--account <name>', what)

  const withShelf = async <T>(options: AccountOption, work: (shelf: Shelf) => Promise<T>): Promise<T> => {
    const { openShelf } = await import('./shelf.ts')
    return withStores(async (stores) => work(await openShelf(config(), stores, options.account)))
  }

  characters
    .command('import')
    .argument('<file...>', 'cards: JSON, PNG or CHARX')
    .addOption(account("put them among this account's uploads, instead of into the folder that everybody sees"))
    .option('--replace', 'replace characters of the same names')
    .description('add characters; all of the cards or, when one of them is faulty, none')
    .action((files: readonly string[], options: AccountOption & { replace?: true }) =>
      withShelf(options, async (shelf) => {
        const { importCards } = await import('./card-import.ts')
        for (const line of await importCards(files, shelf, options.replace === true)) process.stderr.write(`${line}\n`)
      }),
    )

  characters
    .command('export')
    .argument('<name>', 'the character, as a chat completion would name it')
    .addOption(
      new Option('--format <format>', 'V3 JSON, V2 JSON, PNG or CHARX').choices(['json', 'v2', 'png', 'charx']),
    )
    .addOption(account("look among this account's uploads first"))
    .description('print the card of a character on stdout')
    .action((name: string, options: AccountOption & { format?: 'json' | 'v2' | 'png' | 'charx' }) =>
      withShelf(options, async (shelf) => {
        const { exportCard, exportLosses } = await import('./cards/export.ts')
        const { source } = await shelf.find(name)
        const format = options.format ?? 'json'
        process.stdout.write(exportCard(source, format))
        for (const loss of exportLosses(source, format)) process.stderr.write(`${loss}\n`)
      }),
    )

  characters
    .command('check')
    .argument('<file...>', 'cards or lorebooks')
    .option('--json', 'print JSON')
    .description('tell what is wrong with cards, and what in them would be ignored')
    .action(async (files: readonly string[], options: { json?: true }) => {
      const { checkFiles, checkLines } = await import('./card-check.ts')
      const checks = await checkFiles(files, config().cardBodyLimit)
      process.stdout.write(options.json ? `${JSON.stringify(checks, null, 2)}\n` : `${checkLines(checks).join('\n')}\n`)
      const faulty = checks.filter(({ error }) => error !== null).length
      if (faulty > 0) throw new Error(`${faulty} of ${counted(checks.length, 'file')} cannot be read.`)
    })

  characters
    .command('list')
    .addOption(account('and the uploads of this account'))
    .option('--json', 'print JSON')
    .description('list the characters that can be played')
    .action((options: AccountOption & { json?: true }) =>
      withShelf(options, async (shelf) => printRows(await shelf.list(options.json === true), options.json)),
    )

  characters
    .command('test')
    .argument('<name>', 'the character, as a chat completion would name it')
    .requiredOption('--model <model>', 'the model that plays it', notBlank)
    .addOption(account("look among this account's uploads first"))
    .option('--json', 'print JSON')
    .description("run a card's own tests (extensions.conservatory.tests) and tell which pass")
    .action((name: string, options: AccountOption & { model: string; json?: true }) =>
      withShelf(options, async (shelf) => {
        const { runCardTests } = await import('../chat/card-tests.ts')
        const results = await runCardTests(await shelf.find(name), options.model, config(), shelf.library.worldBooks)
        printRows(results, options.json)
        const failed = results.filter(({ passed }) => !passed).length
        if (failed > 0) throw new Error(`${failed} of ${counted(results.length, 'test')} failed.`)
      }),
    )
}

function notBlank(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Name a model.')
  return text
}
