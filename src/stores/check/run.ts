import type { Config } from '../../config.ts'
import { isDamage, StorageError } from '../../errors.ts'
import { print, printJson, printNotice } from '../../print.ts'
import { openToRead } from '../../storage/copy.ts'
import { noDatabase, requireDatabase } from '../../storage/data-folder.ts'
import { appliedMigrations } from '../../storage/migrations.ts'
import { counted } from '../../text.ts'
import { check, damage } from './check.ts'
import type { Finding } from './rules.ts'
import { sqliteToCheck } from './sqlite.ts'

/** This is longer than the time limit of a request, because a statement of a check may read a whole table. */
const statementTimeoutMs = 600_000

/**
 * Checks the database of the settings, and prints its faults on stdout: a line for each fault, or one JSON object.
 * @throws StorageError when there are faults, or the database cannot be checked
 */
export async function runCheck({ databasePath, databaseUrl }: Config, json: true | undefined): Promise<void> {
  const found = databaseUrl === undefined ? checkFile(databasePath) : checkServer(databaseUrl)
  const findings: Finding[] = []
  for await (const finding of found) {
    findings.push(finding)
    if (!json) print(`${finding.message}\n`)
  }
  const ok = findings.length === 0
  if (json) printJson({ ok, findings })
  if (!ok)
    throw new StorageError(`The database has ${counted(findings.length, 'fault')}: see Damage in docs/operations.md.`)
  printNotice('The database is good.')
}

async function* checkFile(path: string): AsyncIterable<Finding> {
  requireDatabase(path)
  try {
    const database = openToRead(path)
    try {
      // An empty file has no migrations.
      if (!appliedMigrations(database)) throw noDatabase(path)
      yield* check(sqliteToCheck(database, path))
    } finally {
      database.close()
    }
  } catch (error) {
    if (!(error instanceof Error) || !isDamage(error)) throw error
    yield damage(error instanceof StorageError ? error.message : `The database cannot be read: ${error.message}.`)
  }
}

async function* checkServer(url: string): AsyncIterable<Finding> {
  const { openPostgres, requireTables } = await import('../../storage/postgres/connect.ts')
  const { startFaultOf } = await import('../../storage/postgres/start-faults.ts')
  const { postgresToCheck } = await import('./postgres.ts')
  // `first` has the time limit of a request, so the check of an unreachable server fails soon. `database` has the long limit.
  const first = openPostgres(url, 'DATABASE_URL')
  let database = first
  try {
    await first.detectPooler()
    await requireTables(first, 'DATABASE_URL')
    database = openPostgres(url, 'DATABASE_URL', { timeoutMs: statementTimeoutMs, isPooled: first.isPooled })
    yield* check(await postgresToCheck(database, printNotice))
  } catch (error) {
    if (error instanceof StorageError) throw error
    throw new StorageError(`The database at ${first.place} ${startFaultOf(error).says}.`)
  } finally {
    await Promise.all([first.close(), database.close()])
  }
}
