import type { Database } from 'better-sqlite3'
import { StorageError } from '../errors.ts'

/*
 * A database that a move has begun to fill has a table `moves` until all is there: the source's place under the name
 * `source`, and the last key of each table under the table's.
 */

/** A move that has begun, and is not done. */
export interface UnfinishedMove {
  readonly source: string
  /** The last key of each table, as JSON, by the table's name. */
  readonly keys: ReadonlyMap<string, string>
}

/** A row of `moves`. */
export interface MoveRow {
  readonly name: string
  readonly value: string
}

/** The move into a SQLite file that is not done, if there is one. */
export function unfinishedMoveInFile(database: Database): UnfinishedMove | undefined {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'moves'").get()) return undefined
  return toUnfinishedMove(database.prepare<[], MoveRow>('SELECT name, value FROM moves').all())
}

/** @throws StorageError when a database, which stands at this place, has only a part of what is moved into it */
export function refuseUnfinishedMove(move: UnfinishedMove | undefined, place: string): void {
  if (!move) return
  throw new StorageError(
    `The database ${place} has only a part of what is moved into it from ${move.source}. Run the same \`conservatory migrate\` again until it says that all is equal.`,
  )
}

/** The move that the rows of `moves` tell of; undefined where none has begun. */
export function toUnfinishedMove(notes: readonly MoveRow[]): UnfinishedMove | undefined {
  const keys = new Map(notes.map(({ name, value }) => [name, value]))
  const source = keys.get('source')
  return source === undefined ? undefined : { source, keys }
}
