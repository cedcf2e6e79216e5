import type { Command } from 'commander'
import type { WithStores } from '../command.ts'
import { printNotice, printRows } from '../print.ts'
import type { AccessStores } from './access.ts'
import type { ModelList } from './model-lists.ts'
import {
  accountLimitHelp,
  limitsText,
  modelsHelp,
  modelsText,
  readAccountChanges,
  readAccountLimits,
  readModels,
  readTimeZone,
  timeZoneHelp,
  withLimit,
} from './options.ts'

/** Adds `accounts …` to the command line. @returns the command `accounts`, for more subcommands */
export function addAccountCommands(program: Command, withStores: WithStores<AccessStores>): Command {
  const accounts = program.command('accounts').description('make, list, change and delete accounts')
  accounts
    .command('create')
    .argument('<name>')
    .option('--limit <name=value>', accountLimitHelp, withLimit)
    .option('--models <a,b/*>', modelsHelp, readModels)
    .description('make an account')
    .action((name: string, { limit, models }: { limit?: readonly string[]; models?: ModelList | null }) =>
      withStores(async ({ access }) => {
        const account = await access.createAccount(name, readAccountLimits(limit), models)
        printNotice(`The account ${JSON.stringify(account.name)} is made. Give it a key: conservatory keys create`)
      }),
    )
  accounts
    .command('list')
    .option('--json', 'print JSON')
    .description('list the accounts')
    .action((options: { json?: true }) =>
      withStores(async ({ access }) => {
        const rows = (await access.listAccounts()).map(({ name, models, created, suspended, timeZone, limits }) => ({
          name,
          models: options.json ? models : modelsText(models),
          time_zone: timeZone,
          created,
          suspended,
          limits: options.json ? limits : limitsText(limits),
        }))
        printRows(rows, options.json)
      }),
    )
  accounts
    .command('suspend')
    .argument('<name>')
    .description('refuse all keys of an account immediately, until the account is resumed')
    .action((name: string) =>
      withStores(async ({ access }) => {
        const account = await access.suspendAccount(name)
        printNotice(`The account ${JSON.stringify(account.name)} is suspended: its keys are refused.`)
      }),
    )
  accounts
    .command('resume')
    .argument('<name>')
    .description('end the suspension of an account: its keys work again')
    .action((name: string) =>
      withStores(async ({ access }) => {
        const account = await access.resumeAccount(name)
        printNotice(`The account ${JSON.stringify(account.name)} is no longer suspended.`)
      }),
    )
  accounts
    .command('limit')
    .argument('<name>')
    .requiredOption('--limit <name=value>', accountLimitHelp, withLimit)
    .description('change the limits of an account')
    .action((name: string, options: { limit: readonly string[] }) =>
      withStores(async ({ access }) => {
        const account = await access.limitAccount(name, readAccountChanges(options.limit))
        const own = limitsText(account.limits)
        const inForce = own === null ? 'those of LIMITS' : `${own}, else those of LIMITS`
        printNotice(`The limits of the account ${JSON.stringify(account.name)} are now: ${inForce}.`)
      }),
    )
  accounts
    .command('models')
    .argument('<name>')
    .argument('<a,b/*>', modelsHelp, readModels)
    .description('change which models the keys of an account may use')
    .action((name: string, models: ModelList | null) =>
      withStores(async ({ access }) => {
        const account = await access.limitAccount(name, {}, models)
        printNotice(
          `The models of the account ${JSON.stringify(account.name)} are now: ${modelsText(account.models) ?? 'all'}.`,
        )
      }),
    )
  return accounts
}

/**
 * Adds `accounts set`.
 * @param onTimeZone called after the time zone of an account has been set, with the id of the account
 */
export function addTimeZoneCommand<Stores extends AccessStores>(
  accounts: Command,
  withStores: WithStores<Stores>,
  onTimeZone: (stores: Stores, account: number) => Promise<void>,
): void {
  accounts
    .command('set')
    .argument('<name>')
    .requiredOption('--time-zone <zone>', timeZoneHelp, readTimeZone)
    .description('set the time zone of an account, in which its days begin; after an interruption, run it again')
    .action((name: string, { timeZone }: { timeZone: string }) =>
      withStores(async (stores) => {
        const account = await stores.access.setTimeZone(name, timeZone === 'UTC' ? null : timeZone)
        await onTimeZone(stores, account.id)
        printNotice(`The time zone of the account ${JSON.stringify(account.name)} is now: ${timeZone}.`)
      }),
    )
}
