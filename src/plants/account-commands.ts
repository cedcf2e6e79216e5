import { join } from 'node:path'
import type { Command } from 'commander'
import { AccessError, type AccessStores, findAccount } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import type { Config } from '../config.ts'
import { ApiError } from '../errors.ts'
import { print, readInput, tell } from '../print.ts'
import { counted } from '../text.ts'
import type { PlantStore } from './plant.ts'
import type { PlantTaker } from './portable.ts'

/** The stores as far as these commands use them. */
interface UsedStores extends AccessStores {
  readonly plants: PlantStore
  deleteAccount(name: string, keeper: PlantTaker): Promise<void>
}

/** Adds `accounts export|import|delete`: what an account owns, on its way out and in. */
export function addTransferCommands(accounts: Command, config: () => Config, withStores: WithStores<UsedStores>): void {
  accounts
    .command('export')
    .argument('<name>')
    .description('print the plants of an account as JSON lines')
    .action((name: string) =>
      withStores(async ({ access, plants }) => {
        const { headerLine, plantLine } = await import('./account-file.ts')
        const account = await findAccount(access, name)
        await plants.exportPlants(account.id, {
          begin: (count) => void print(headerLine(account.name, count)),
          add(plants) {
            for (const plant of plants) print(plantLine(plant))
          },
          end() {},
        })
      }),
    )

  accounts
    .command('import')
    .argument('<name>', 'an account that there is')
    .argument('[file]', 'what `accounts export` printed; stdin without it')
    .description('add the plants of a file to an account, all of them or none')
    .action((name: string, file: string | undefined) =>
      withStores(async ({ access, plants }) => {
        const { readAccountFile } = await import('./account-file.ts')
        const read = readAccountFile(await readText(file))
        const account = await findAccount(access, name)
        await plants.importPlants(account.id, read, (index) => `Line ${index + 2}`)
        tell(`The account ${JSON.stringify(account.name)} has ${counted(read.length, 'plant')} more now.`)
      }),
    )

  accounts
    .command('delete')
    .argument('<name>')
    .description('delete an account with all that it has, at once; its plants are exported first')
    .action((name: string) =>
      withStores(async ({ deleteAccount }) => {
        const { PlantsFile } = await import('./safety-file.ts')
        const file = new PlantsFile(join(config().dataDirectory, 'backups'), name.trim())
        try {
          await deleteAccount(name, file)
        } catch (error) {
          // Nothing was deleted, and what looks like a backup of it would only mislead; unless that is not known.
          const isUnknown = error instanceof ApiError && error.code === 'write_unconfirmed'
          if (!isUnknown) file.discard()
          throw error
        }
        const kept = file.path === undefined ? 'It had no plants.' : `Its plants are in ${file.path}.`
        tell(`The account ${JSON.stringify(name.trim())} is deleted. ${kept}`)
      }),
    )
}

async function readText(file: string | undefined): Promise<string> {
  if (file !== undefined) {
    const { readFile } = await import('node:fs/promises')
    return await readFile(file, 'utf8').catch((cause: unknown) => {
      throw new AccessError(`The file ${JSON.stringify(file)} cannot be read.`, 'refused', { cause })
    })
  }
  return await readInput()
}
