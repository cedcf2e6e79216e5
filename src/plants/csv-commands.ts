import type { Command } from 'commander'
import { type AccessStores, findAccount } from '../access/access.ts'
import { type AuditStores, commandLine } from '../audit/record.ts'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { printAndWait, printNotice } from '../print.ts'
import type { Scripts } from '../storage/scripts.ts'
import { describeImport, describeUndo } from './account-commands.ts'
import { transferEntry } from './policy.ts'
import type { PlantTransfers } from './transfers.ts'

/** The stores as far as these commands use them. */
interface UsedStores extends AccessStores, AuditStores {
  readonly scripts: Scripts
  readonly transfers: PlantTransfers
}

/** Adds `plants export|import`, for CSV files of any length. */
export function addCsvCommands(plants: Command, config: () => Config, withStores: WithStores<UsedStores>): void {
  plants
    .command('export')
    .argument('<account>')
    .description('print the plants of an account with their details as CSV')
    .action((name: string) =>
      withStores(async ({ access, audit, scripts }) => {
        const { csvTexts } = await import('./plant-csv.ts')
        const account = await findAccount(access, name)
        await audit.record(commandLine, transferEntry('account.exported', account.id, account.name))
        for await (const text of csvTexts(scripts, account.id)) if (!(await printAndWait(text))) return
      }),
    )

  plants
    .command('import')
    .argument('<account>', 'an existing account')
    .argument('[file]', 'a CSV file, such as the output of `plants export`; without this argument, stdin is read')
    .option('--undo', 'undo an import of this file: remove the plants that it added')
    .description(
      'add the plants of a CSV file to an account: checks all rows first, then writes in batches; after an interruption, run it again to continue',
    )
    .action((name: string, path: string | undefined, options: { undo?: true }) =>
      withStores(async ({ access, transfers }) => {
        const { InputFile } = await import('./input-file.ts')
        const { CsvSource } = await import('./csv-source.ts')
        const { importFile, undoImport } = await import('./importing.ts')
        const account = await findAccount(access, name)
        const file = await InputFile.open(path, config().dataDirectory)
        try {
          const source = await CsvSource.open(file, transfers, account.id)
          if (source.ignored.length > 0) {
            printNotice(`Ignored columns: ${source.ignored.map((each) => JSON.stringify(each)).join(', ')}.`)
          }
          const notice = options.undo
            ? describeUndo(account, await undoImport(transfers, account, source))
            : describeImport(account, await importFile(transfers, account, source))
          printNotice(notice)
        } finally {
          await file.close()
        }
      }),
    )
}
