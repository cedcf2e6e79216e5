import { type Command, CommanderError } from 'commander'
import { addAccountCommands, addTimeZoneCommand } from './access/account-commands.ts'
import { addKeyCommands } from './access/key-commands.ts'
import { addAuditCommand } from './audit/commands.ts'
import { commandLine } from './audit/record.ts'
import { addCareCommands } from './care/commands.ts'
import { addCharacterCommands } from './characters/commands.ts'
import { addCardTestCommand } from './chat/commands.ts'
import { PlainCommand } from './command.ts'
import { type Config, type Environment, readConfig } from './config.ts'
import { ApiError } from './errors.ts'
import { readManifest } from './manifest.ts'
import { addModelCommands } from './models/commands.ts'
import { addTransferCommands } from './plants/account-commands.ts'
import { addPlantCommands } from './plants/commands.ts'
import { addCsvCommands } from './plants/csv-commands.ts'
import { printNotice } from './print.ts'
import { addStorageCommands } from './stores/commands.ts'
import type { Stores } from './stores/stores.ts'
import { addUsageCommands } from './usage/commands.ts'

/**
 * Runs a command.
 * @param words the arguments of the process
 * @param serve runs the command `serve`
 * @returns the exit code: 0 for success; 2 for wrong usage, after the error has been printed
 * @throws Error with one clear sentence when the command is refused or fails
 */
export async function runCommand(
  words: readonly string[],
  environment: Environment,
  serve: () => Promise<void>,
): Promise<number> {
  try {
    await createProgram(environment, serve).parseAsync(words, { from: 'user' })
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    // On the command line, an error with the status 400 means wrong usage.
    if (!(error instanceof ApiError) || error.status !== 400) throw error
    printNotice(`${error.message}`)
    return 2
  }
}

/**
 * The command line: `serve`, which is the default command, and the operator's commands. The operator's commands may run while the
 * service runs. Data goes to stdout, notices go to stderr. Each command imports its modules when it runs.
 */
function createProgram(environment: Environment, serve: () => Promise<void>): Command {
  const config = (): Config => readConfig(environment)
  const program = new PlainCommand('conservatory')
    .description(
      'A plant store and character-chat server. Settings come from the environment; docs/settings.md lists them.',
    )
    .version(readManifest().version, '--version', 'print the version')
    .exitOverride()
  program.command('serve').description('run the service; this is the default command').action(serve)
  const withStores = async <T>(work: (stores: Stores) => Promise<T>): Promise<T> => {
    const { openStores } = await import('./stores/open.ts')
    // Only the service makes a database. A command with a mistyped DATA_DIR would report an empty one as the operator's.
    const stores = await openStores(config(), commandLine, false)
    try {
      return await work(stores)
    } finally {
      await stores.close()
    }
  }
  const accounts = addAccountCommands(program, withStores)
  addTimeZoneCommand(accounts, withStores, async ({ scripts }, account) => {
    const { renewDueDates } = await import('./care/rules.ts')
    await renewDueDates(scripts, account)
  })
  addTransferCommands(accounts, config, withStores)
  addKeyCommands(program, withStores)
  const plants = addPlantCommands(program, withStores)
  addCsvCommands(plants, config, withStores)
  addCareCommands(program, plants, withStores)
  addCardTestCommand(addCharacterCommands(program, config, withStores), config, withStores)
  addModelCommands(program, config)
  addUsageCommands(program, withStores)
  addAuditCommand(program, withStores)
  addStorageCommands(program, config)
  return program
}
