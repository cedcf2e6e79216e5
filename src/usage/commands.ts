import { type Command, Option } from 'commander'
import { AccessError, type AccessStore } from '../access/access.ts'
import { csvOf } from '../csv.ts'
import { printable, printRows } from '../table.ts'
import { readPeriod } from './period.ts'
import { type Grouping, operatorGroupings, type UsageReader, type UsageRow, usageHeader, usageRow } from './report.ts'

/** The opened stores, as far as this command uses them. */
interface OpenedStores {
  readonly access: AccessStore
  readonly usage: UsageReader
  close(): Promise<void>
}

interface UsageOptions {
  readonly from?: string
  readonly to?: string
  readonly by: Grouping
  readonly account?: string
  readonly json?: true
  readonly csv?: true
}

/** Adds `usage` to the command line. `open` opens the stores for one command. */
export function addUsageCommands(program: Command, open: () => Promise<OpenedStores>): void {
  program
    .command('usage')
    .option(
      '--from <day>',
      'the first day, or a moment such as 2026-11-01T08:00:00Z; 29 days before the last without it',
    )
    .option('--to <day>', 'the last day, or the moment before which it ends; now without it')
    .addOption(new Option('--by <what>', 'what each line is of').choices(operatorGroupings).default('day'))
    .option('--account <name>', 'only what this account used')
    .option('--json', 'print JSON')
    .addOption(new Option('--csv', 'print CSV, for a spreadsheet').conflicts('json'))
    .description('sum up the chat requests that have ended, in UTC')
    .action(async (options: UsageOptions) => {
      const period = readPeriod(options, Math.floor(Date.now() / 1000))
      const stores = await open()
      try {
        const account =
          options.account === undefined ? {} : { account: await accountId(stores.access, options.account) }
        const lines = await stores.usage.sum({ by: options.by, ...account, ...period })
        print(
          lines.map((line) => usageRow(options.by, line)),
          options,
        )
      } finally {
        await stores.close()
      }
    })
}

async function accountId(access: AccessStore, name: string): Promise<number> {
  const account = (await access.listAccounts()).find((each) => each.name === name.trim())
  if (account) return account.id
  throw new AccessError(`There is no account ${JSON.stringify(name)}. See: conservatory accounts list`)
}

function print(rows: readonly UsageRow[], { by, json, csv }: UsageOptions): void {
  if (csv) process.stdout.write(csvOf(usageHeader(by), rows.map(Object.values)))
  else printRows(json ? rows : rows.map((row) => withPrintableName(row, by)), json)
}

/** Callers name models and characters, and a name must not steer the operator's terminal. */
function withPrintableName(row: UsageRow, by: Grouping): UsageRow {
  const name = row[by]
  return typeof name === 'string' ? { ...row, [by]: printable(name) } : row
}
