import type { Database } from 'better-sqlite3'
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config.ts'
import { StorageError } from '../errors.ts'
import { printNotice, progressOutput } from '../print.ts'
import type { RowCounts } from '../storage/copy.ts'
import { counted } from '../text.ts'
import { engineOf, placeForm } from './move/engine.ts'

/** Adds `backup`, `restore`, `check` and `migrate` to the command line. */
export function addStorageCommands(program: Command, config: () => Config): void {
  const databasePath = (): string => {
    const { databasePath, databaseUrl } = config()
    if (databaseUrl === undefined) return databasePath
    throw new StorageError(
      'DATABASE_URL names a PostgreSQL, which has its own backups: see docs/operations.md. This command is for the SQLite file.',
    )
  }
  program
    .command('backup')
    .argument('[file]', 'the file of the backup, which must not exist yet')
    .option('--to <folder>', 'instead of a file: a folder; the backup gets a name with its time')
    .option('--keep <number>', 'with --to: how many of the newest backups stay; without this option, all', readKeep)
    .description('copy the database while the service runs, and test that the copy can be restored')
    .action(async (file: string | undefined, { to, keep }: { to?: string; keep?: number }, command: Command) => {
      if ((file === undefined) === (to === undefined)) command.error('Give either a file, or a folder with --to.')
      if (keep !== undefined && to === undefined)
        command.error('--keep goes with --to: it removes old backups from a folder.')
      const { backUp, backUpInto } = await import('../storage/backup.ts')
      if (file !== undefined) return tellContents(`The backup ${file} is good`, backUp(databasePath(), file))
      const made = backUpInto(databasePath(), to ?? '', keep)
      tellContents(`The backup ${made.file} is good`, made.contents)
      for (const old of made.removed) printNotice(`The older backup ${old} is removed.`)
    })
  program
    .command('restore')
    .argument('<file>', 'a backup')
    .option('--force', 'replace an existing database; the old one is kept in the same folder')
    .description('replace the database by a backup; no service may be running')
    .action(async (file: string, options: { force?: true }) => {
      const { restore } = await import('../storage/restore.ts')
      const { noteRestore } = await import('../audit/sqlite.ts')
      const note = (copy: Database) => noteRestore(copy, file)
      const { contents, isOlder, kept } = restore(databasePath(), file, options.force === true, note)
      tellContents(`${file} is restored`, contents)
      if (kept !== undefined) printNotice(`The database that was there is kept as ${kept}.`)
      if (isOlder) printNotice('The backup has an older schema, which the next start brings up to date.')
    })
  program
    .command('check')
    .option('--json', 'print one JSON object: whether the database is good, and its faults')
    .description('look for damage, orphans and wrong counters while the service runs; exit code 1 if there are any')
    .action(async ({ json }: { json?: true }) => {
      const { runCheck } = await import('./check/check.ts')
      await runCheck(config(), json)
    })
  program
    .command('migrate')
    .requiredOption('--from <url>', `the database to move: ${placeForm}`, readPlace)
    .requiredOption('--to <url>', 'an empty database, or the same one again to go on', readPlace)
    .description('move all rows to another database, and compare both; no service may be running')
    .action(async (options: { from: string; to: string }) => {
      const { runMove } = await import('./move/move.ts')
      await runMove(options.from, options.to, progressOutput())
    })
}

function tellContents(what: string, contents: RowCounts): void {
  const rows = Object.entries(contents).map(([table, count]) => {
    const name = table.replaceAll('_', ' ')
    return name.endsWith('s') ? counted(count, name.slice(0, -1)) : `${counted(count, 'row')} of ${name}`
  })
  printNotice(`${what}: ${rows.join(', ')}.`)
}

function readKeep(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('Give a whole number from 1 to 999999.')
  return Number(text)
}

function readPlace(url: string): string {
  if (engineOf(url) === undefined) throw new InvalidArgumentError(`Give ${placeForm}.`)
  return url
}
