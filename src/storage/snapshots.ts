import Database from 'better-sqlite3'

/** The connections of this process that read older moments, by their file. */
const open = new Map<string, Set<Database.Database>>()

/** Opens a second connection that only reads, for a list that keeps one snapshot while others write. */
export function openSnapshot(path: string): Database.Database {
  const database = new Database(path, { readonly: true })
  // It reads each page of the file once: what it keeps of them, 1 MB here instead of 16, is read by nobody.
  database.pragma('cache_size = -1000')
  database.exec('BEGIN')
  const others = open.get(path) ?? new Set()
  open.set(path, others.add(database))
  return database
}

/** Closes a connection that was opened so. */
export function closeSnapshot(database: Database.Database): void {
  const others = open.get(database.name)
  others?.delete(database)
  if (others?.size === 0) open.delete(database.name)
  database.close()
}

/** Lets all lists of a file go on at the newest moment: none of them keeps the log from being emptied until it reads again. */
export function refreshSnapshots(path: string): void {
  for (const database of open.get(path) ?? []) database.exec('COMMIT; BEGIN')
}
