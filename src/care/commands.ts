import { type Command, InvalidArgumentError, Option } from 'commander'
import { type AccessStores, findAccount } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import { print, printNotice, printRows } from '../print.ts'
import type { Scripts } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { addDays, civilDay, overdueDays } from './due.ts'
import { type DuePlace, type DueRule, readDue } from './due-list.ts'
import { csvOfEvents, eventsOf } from './events.ts'
import { readFilter, readWithin } from './input.ts'

/** The stores as far as these commands use them. */
interface UsedStores extends AccessStores {
  readonly scripts: Scripts
}

interface DueOptions {
  readonly account: string
  readonly within?: string
  readonly json?: true
}

interface EventOptions {
  readonly account: string
  readonly plant: number
  readonly kind?: string
  readonly from?: string
  readonly to?: string
  readonly json?: true
  readonly csv?: true
}

const rowsPerRead = 1000

/** Adds `care due` and `plants events` to the command line. @param plants the command `plants` */
export function addCareCommands(program: Command, plants: Command, withStores: WithStores<UsedStores>): void {
  program
    .command('care')
    .description('show what plants need')
    .command('due')
    .requiredOption('--account <name>', 'the account that sees the plants')
    .option('--within <days>', 'how many days from today on belong to the list, such as 3d', '0d')
    .option('--json', 'print JSON')
    .description('list what is due for the plants that an account sees')
    .action(({ account: name, within, json }: DueOptions) =>
      withStores(async ({ access, scripts }) => {
        const account = await findAccount(access, name)
        const today = civilDay(account.timeZone, unixSeconds())
        const rules = await allDue(scripts, account.id, addDays(today, readWithin(within)))
        const rows = rules.map((rule) => ({
          due: rule.due,
          overdue_days: overdueDays(rule.due, today),
          kind: rule.kind,
          plant: rule.account === account.id ? rule.plant : null,
          name: rule.name,
          last: rule.last,
        }))
        printRows(rows, json)
      }),
    )
  plants
    .command('events')
    .requiredOption('--account <name>', 'the account that owns the plant')
    .requiredOption('--plant <id>', 'the id of the plant', readPlantId)
    .option('--kind <kind>', 'only events of this kind')
    .option('--from <day>', 'the first day, in the time zone of the account, or Unix seconds')
    .option('--to <day>', 'the last day, or Unix seconds')
    .option('--json', 'print JSON')
    .addOption(new Option('--csv', 'print CSV').conflicts('json'))
    .description('print the log of a plant, newest first')
    .action((options: EventOptions) => withStores((stores) => printEvents(stores, options)))
}

/** All that is due for the plants that an account sees. */
async function allDue(scripts: Scripts, account: number, until: string): Promise<readonly DueRule[]> {
  const rules: DueRule[] = []
  for (let after: DuePlace | undefined; ; after = rules.at(-1)) {
    const read = await readDue(scripts, account, until, after, rowsPerRead)
    rules.push(...read)
    if (read.length < rowsPerRead) return rules
  }
}

function readPlantId(text: string): number {
  if (/^-?\d{1,16}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Give a whole number.')
}

async function printEvents({ access, scripts }: UsedStores, options: EventOptions): Promise<void> {
  const { id: account, timeZone } = await findAccount(access, options.account)
  const { plant } = options
  const filter = readFilter(options, timeZone)
  if (options.csv) {
    for await (const lines of csvOfEvents(scripts, account, plant, filter)) print(lines)
    return
  }
  const events = await scripts.read(() => eventsOf(account, plant, filter, undefined, rowsPerRead + 1))
  printRows(events.slice(0, rowsPerRead), options.json)
  if (events.length > rowsPerRead) {
    printNotice(`These are the newest ${rowsPerRead} events. Give --to for older ones, or --csv for all.`)
  }
}
