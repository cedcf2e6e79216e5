import { existsSync, realpathSync } from 'node:fs'

/** The path without symbolic links: SQLite keeps the log in the folder of the real database file, not in the folder of a link. */
export function realPathOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : path
}
