import { type Command, Option } from 'commander'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { print, printJson, printNotice, printRows } from '../print.ts'
import { counted } from '../text.ts'
import type { CharacterStores, CommandLibrary } from './command-library.ts'

interface AccountOption {
  readonly account?: string
}

/**
 * Adds `characters …` to the command line.
 * @returns the command `characters`, for further subcommands
 */
export function addCharacterCommands(
  program: Command,
  config: () => Config,
  withStores: WithStores<CharacterStores>,
): Command {
  const characters = program.command('characters').description('manage characters and their cards')
  const account = (what: string) => new Option('--account <name>', what)

  const withLibrary = async <T>(
    options: AccountOption,
    work: (commandLibrary: CommandLibrary) => Promise<T>,
  ): Promise<T> => {
    const { openCommandLibrary } = await import('./command-library.ts')
    return withStores(async (stores) => work(await openCommandLibrary(config(), stores, options.account)))
  }

  characters
    .command('import')
    .argument('<file...>', 'cards: JSON, PNG or CHARX')
    .addOption(account("add them to this account's uploads, instead of the folder for all accounts"))
    .option('--replace', 'replace characters of the same names')
    .description('add characters; if one card is faulty, none is added')
    .action((files: readonly string[], options: AccountOption & { replace?: true }) =>
      withLibrary(options, async (commandLibrary) => {
        const { importCards } = await import('./command-library.ts')
        for (const line of await importCards(files, commandLibrary, options.replace === true)) printNotice(`${line}`)
      }),
    )

  characters
    .command('export')
    .argument('<name>', 'the name of the character, as in a chat completion')
    .addOption(
      new Option('--format <format>', 'V3 JSON, V2 JSON, PNG or CHARX').choices(['json', 'v2', 'png', 'charx']),
    )
    .addOption(account("search this account's uploads first"))
    .description('print the card of a character on stdout')
    .action((name: string, options: AccountOption & { format?: 'json' | 'v2' | 'png' | 'charx' }) =>
      withLibrary(options, async (commandLibrary) => {
        const { exportCard } = await import('./cards/export.ts')
        const { source } = await commandLibrary.find(name)
        const format = options.format ?? 'json'
        const { bytes, losses } = exportCard(source, format)
        print(bytes)
        for (const loss of losses) printNotice(`${loss}`)
      }),
    )

  characters
    .command('check')
    .argument('<file...>', 'cards or lorebooks')
    .option('--json', 'print JSON')
    .description('report faults of cards and lorebooks, and fields that would be ignored')
    .action(async (files: readonly string[], options: { json?: true }) => {
      const { checkFiles, checkLines } = await import('./card-check.ts')
      const checks = await checkFiles(files, config().cardBodyLimit)
      if (options.json) printJson(checks)
      else print(`${checkLines(checks).join('\n')}\n`)
      const faulty = checks.filter(({ error }) => error !== null).length
      if (faulty > 0) throw new Error(`${faulty} of ${counted(checks.length, 'file')} cannot be read.`)
    })

  characters
    .command('list')
    .addOption(account('list the uploads of this account too'))
    .option('--json', 'print JSON')
    .description('list the characters that can be played')
    .action((options: AccountOption & { json?: true }) =>
      withLibrary(options, async (commandLibrary) => printRows(await commandLibrary.list(), options.json)),
    )
  return characters
}
