import { type Command, Option } from 'commander'
import { type AccessStores, findAccount } from '../access/access.ts'
import type { WithStores } from '../command.ts'
import { print, printable, printRows } from '../print.ts'
import { unixSeconds } from '../time.ts'
import { readPeriod } from './period.ts'
import { type Grouping, operatorGroupings, type UsageReader, type UsageRow, usageHeader, usageRow } from './report.ts'

/** The stores as far as this command uses them. */
interface UsedStores extends AccessStores {
  readonly usage: UsageReader
}

interface UsageOptions {
  readonly from?: string
  readonly to?: string
  readonly by: Grouping
  readonly account?: string
  readonly json?: true
  readonly csv?: true
}

/** Adds `usage` to the command line. */
export function addUsageCommands(program: Command, withStores: WithStores<UsedStores>): void {
  program
    .command('usage')
    .option(
      '--from <day>',
      'the first day, or a moment such as 2026-11-01T08:00:00Z; the default is 29 days before the last day',
    )
    .option('--to <day>', 'the last day, or the moment of the end (exclusive); the default is now')
    .addOption(new Option('--by <what>', 'the subject of each line').choices(operatorGroupings).default('day'))
    .option('--account <name>', 'only the usage of this account')
    .option('--json', 'print JSON')
    .addOption(new Option('--csv', 'print CSV, for a spreadsheet').conflicts('json'))
    .description('sum up ended chat requests; days are in UTC')
    .action(async (options: UsageOptions) => {
      const period = readPeriod(options, unixSeconds())
      const { by, account } = options
      const lines = await withStores(async ({ access, usage }) => {
        const owner = account === undefined ? {} : { account: (await findAccount(access, account)).id }
        return usage.sum({ by, ...owner, ...period })
      })
      const rows = lines.map((line) => usageRow(by, line))
      printUsage(rows, options)
    })
}

function printUsage(rows: readonly UsageRow[], { by, json, csv }: UsageOptions): void {
  const named = csv ? rows.map((row) => Object.values(withPrintableName(row, by))) : []
  if (csv) print(csvOf(usageHeader(by), named))
  else printRows(rows, json)
}

/** Callers name models and characters. A name must not control the operator's terminal, and must not break a line of CSV. */
function withPrintableName(row: UsageRow, by: Grouping): UsageRow {
  const name = row[by]
  return typeof name === 'string' ? { ...row, [by]: printable(name) } : row
}

type Cell = string | number | null

/**
 * Writes a header and rows as CSV (RFC 4180): CRLF after each line, quotes only where needed, an empty cell for null.
 * A text that a spreadsheet would run as a formula gets an apostrophe before it.
 */
export function csvOf(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(cellOf).join(',')}\r\n`).join('')
}

function cellOf(cell: Cell): string {
  if (typeof cell !== 'string') return cell === null ? '' : String(cell)
  // Spreadsheets skip blanks before the sign of a formula, and some accept the full-width form of the sign.
  const harmless = /^[\s\p{Cc}]*[=+\-@＝＋－＠]/u.test(cell) || /^[\t\r\n]/.test(cell) ? `'${cell}` : cell
  return /[",\r\n]|^\s|\s$/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
