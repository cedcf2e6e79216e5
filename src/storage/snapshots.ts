import Database from 'better-sqlite3'

/** The open snapshots of this process, by database file. */
const open = new Map<string, Set<Database.Database>>()

/**
 * Opens a read-only connection for a long list or an export. The connection reads one snapshot, even while others write, until
 * `refreshSnapshots` moves the connection to a newer snapshot.
 */
export function openSnapshot(path: string): Database.Database {
  const database = new Database(path, { readonly: true })
  // A list reads each page of the file once, so a large cache would have no hits. So the cache has 1 MB instead of 16 MB.
  database.pragma('cache_size = -1000')
  database.exec('BEGIN')
  const others = open.get(path) ?? new Set()
  open.set(path, others.add(database))
  return database
}

/** Closes a connection of `openSnapshot`. */
export function closeSnapshot(database: Database.Database): void {
  const others = open.get(database.name)
  others?.delete(database)
  if (others?.size === 0) open.delete(database.name)
  database.close()
}

/** Moves all snapshots of a file to its newest state. Until its next read, a snapshot then blocks no truncation of the log. */
export function refreshSnapshots(path: string): void {
  for (const database of open.get(path) ?? []) database.exec('COMMIT; BEGIN')
}
