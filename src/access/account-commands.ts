import type { Command } from 'commander'
import type { WithStores } from '../command.ts'
import { printRows, tell } from '../print.ts'
import type { AccessStores } from './access.ts'
import { limitHelp, limitsText, readLimitChanges, readLimits, withChange, withLimit } from './limit-options.ts'

/** Adds `accounts …` to the command line, and gives it. */
export function addAccountCommands(program: Command, withStores: WithStores<AccessStores>): Command {
  const accounts = program.command('accounts').description('look after accounts')
  accounts
    .command('create')
    .argument('<name>')
    .option('--limit <name=value>', limitHelp, withLimit)
    .description('make an account')
    .action((name: string, options: { limit?: readonly string[] }) =>
      withStores(async ({ access }) => {
        const account = await access.createAccount(name, readLimits(options.limit ?? []))
        tell(`The account ${JSON.stringify(account.name)} is made. Give it a key: conservatory keys create`)
      }),
    )
  accounts
    .command('list')
    .option('--json', 'print JSON')
    .description('list the accounts')
    .action((options: { json?: true }) =>
      withStores(async ({ access }) => {
        const rows = (await access.listAccounts()).map(({ name, created, suspended, limits }) => ({
          name,
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
    .description('refuse all keys of an account, at once, until it is resumed')
    .action((name: string) =>
      withStores(async ({ access }) => {
        const account = await access.suspendAccount(name)
        tell(`The account ${JSON.stringify(account.name)} is suspended: its keys are refused.`)
      }),
    )
  accounts
    .command('resume')
    .argument('<name>')
    .description('let the keys of a suspended account in again')
    .action((name: string) =>
      withStores(async ({ access }) => {
        const account = await access.resumeAccount(name)
        tell(`The account ${JSON.stringify(account.name)} is not suspended any more.`)
      }),
    )
  accounts
    .command('limit')
    .argument('<name>')
    .requiredOption('--limit <name=value>', `${limitHelp}; the value none takes one away`, withChange)
    .description('change the limits of an account')
    .action((name: string, options: { limit: readonly string[] }) =>
      withStores(async ({ access }) => {
        const account = await access.limitAccount(name, readLimitChanges(options.limit))
        tell(
          `The limits of the account ${JSON.stringify(account.name)} are now: ${limitsText(account.limits) ?? 'none'}.`,
        )
      }),
    )
  return accounts
}
