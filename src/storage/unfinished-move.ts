import type { Database } from 'better-sqlite3'
import { StorageError } from '../errors.ts'

/*
 * A move copies all data from one database to another. Until the move is complete, the target has a table `moves`. The row
 * `source` of `moves` has the path of the source database, or its hosts and name. Each table with moved rows has a row in
 * `moves`, with the key of the last moved row.
 */

export interface UnfinishedMove {
  readonly source: string
  /** The last moved key of each table, as JSON, by the table's name. */
  readonly keys: ReadonlyMap<string, string>
}

/** A row of `moves`. */
export interface MoveRow {
  readonly name: string
  readonly value: string
}

/** The unfinished move into a SQLite file; undefined when there is no such move. */
export function unfinishedMoveInFile(database: Database): UnfinishedMove | undefined {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'moves'").get()) return undefined
  return toUnfinishedMove(database.prepare<[], MoveRow>('SELECT name, value FROM moves').all())
}

/**
 * Refuses a database with an unfinished move.
 * @param place the path or the hosts of the database, for the message
 * @throws StorageError when there is a `move`
 */
export function refuseUnfinishedMove(move: UnfinishedMove | undefined, place: string): void {
  if (!move) return
  throw new StorageError(
    `The database ${place} has only a part of what is moved into it from ${move.source}. Run the same \`conservatory migrate\` command again until it reports that both sides are equal.`,
  )
}

/** The move that the rows of `moves` describe; undefined when no move has begun. */
export function toUnfinishedMove(rows: readonly MoveRow[]): UnfinishedMove | undefined {
  const keys = new Map(rows.map(({ name, value }) => [name, value]))
  const source = keys.get('source')
  return source === undefined ? undefined : { source, keys }
}
