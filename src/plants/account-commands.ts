import { join } from 'node:path'
import type { Command } from 'commander'
import { type AccessStores, type Account, findAccount } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { ApiError } from '../errors.ts'
import { printNotice } from '../print.ts'
import { counted } from '../text.ts'
import type { DeletingStores } from './deleting.ts'
import type { Imported } from './importing.ts'
import type { InputFile } from './input-file.ts'
import type { PlantTransfers } from './transfers.ts'

/** Adds `accounts export|import|delete`. */
export function addTransferCommands(
  accounts: Command,
  config: () => Config,
  withStores: WithStores<DeletingStores>,
): void {
  accounts
    .command('export')
    .argument('<name>')
    .description('print the plants of an account as JSON lines')
    .action((name: string) =>
      withStores(async ({ access, transfers }) => {
        const { printExport } = await import('./exporting.ts')
        const account = await findAccount(access, name)
        await printExport(account.name, config().dataDirectory, (sink) => transfers.exportPlants(account.id, sink))
      }),
    )

  accounts
    .command('import')
    .argument('<name>', 'an existing account')
    .argument('[file]', 'the output of `accounts export`; without this argument, stdin is read')
    .option('--undo', 'undo an import of this file: remove the plants that it added')
    .description(
      'add the plants of a file to an account: checks all lines first, then writes in batches; after an interruption, run it again to continue',
    )
    .action((name: string, path: string | undefined, options: { undo?: true }) =>
      withStores(async ({ access, transfers }) => {
        const { InputFile } = await import('./input-file.ts')
        const file = await InputFile.open(path, config().dataDirectory)
        try {
          await (options.undo ? undo : add)({ access, transfers }, name, file)
        } finally {
          await file.close()
        }
      }),
    )

  accounts
    .command('delete')
    .argument('<name>')
    .description(
      'suspend an account, export its plants, and delete it with everything that it owns; after an interruption, run it again to continue',
    )
    .action((name: string) => withStores((stores) => remove(stores, name, join(config().dataDirectory, 'backups'))))
}

interface TransferStores extends AccessStores {
  readonly transfers: PlantTransfers
}

async function add({ access, transfers }: TransferStores, name: string, file: InputFile): Promise<void> {
  const { importFile } = await import('./importing.ts')
  const account = await findAccount(access, name)
  printNotice(describeImport(account, await importFile(transfers, account, file)))
}

/** A sentence about an import. */
export function describeImport({ name }: Account, { plants, before }: Imported): string {
  const shown = JSON.stringify(name)
  if (before === plants && plants > 0) {
    return `The file was imported before: the account ${shown} has its ${counted(plants, 'plant')}.`
  }
  const earlier = before === 0 ? '' : `, ${before} of them from an interrupted run of this command`
  return `The account ${shown} now has ${counted(plants, 'plant')} more${earlier}.`
}

async function undo({ access, transfers }: TransferStores, name: string, file: InputFile): Promise<void> {
  const { undoImport } = await import('./importing.ts')
  const account = await findAccount(access, name)
  printNotice(describeUndo(account, await undoImport(transfers, account, file)))
}

/** A sentence about an import that is undone. */
export function describeUndo({ name }: Account, removed: number): string {
  return `The import is undone: the account ${JSON.stringify(name)} now has ${counted(removed, 'plant')} fewer.`
}

async function remove(stores: DeletingStores, name: string, folder: string): Promise<void> {
  const { deleteWithPlants } = await import('./deleting.ts')
  const shown = JSON.stringify(name.trim())
  let isSuspended = false
  try {
    const paths = await deleteWithPlants(stores, name, folder, {
      onSuspended() {
        isSuspended = true
      },
      onMissing: (path) => printNotice(`The file ${path} is missing. It may have had plants that are deleted already.`),
    })
    const kept = paths.length === 0 ? 'It had no plants.' : `Its plants are in ${paths.join(' and ')}.`
    printNotice(`The account ${shown} is deleted. ${kept}`)
  } catch (error) {
    const isUnknown = error instanceof ApiError && error.code === 'write_unconfirmed'
    if (isSuspended && !isUnknown) {
      printNotice(
        `The account ${shown} is suspended, but not deleted. Run this again to continue, or undo the suspension: conservatory accounts resume`,
      )
    }
    throw error
  }
}
