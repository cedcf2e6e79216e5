import { existsSync, realpathSync } from 'node:fs'

/** The database's own file: if its path is a symbolic link, SQLite keeps the log beside the file that the link leads to. */
export function realPathOf(databasePath: string): string {
  return existsSync(databasePath) ? realpathSync(databasePath) : databasePath
}
