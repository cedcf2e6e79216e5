import { chmodSync, existsSync, lstatSync, realpathSync, statSync } from 'node:fs'

/** Whether this is Windows, which has no owners and modes of files, and cannot rename a file over an open file. */
export const isWindows = process.platform === 'win32'

/** The uid of the process; undefined on Windows. */
export const userId = process.getuid?.()

/** The path without symbolic links: SQLite keeps the log in the folder of the real database file, not in the folder of a link. */
export function realPathOf(path: string): string {
  return existsSync(path) ? realpathSync(path) : path
}

/**
 * Whether a folder exists, belongs to the user of the process, and may not be written by other users. On Windows, whether it
 * exists. False for a symbolic link, because its target may be changed.
 */
export function isClosedFolder(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (!stats?.isDirectory()) return false
  return isWindows || (stats.uid === userId && (stats.mode & 0o022) === 0)
}

/**
 * Removes the rights of other users from the files of a database, because an earlier version may have made the files readable
 * for all. Then checks whether other users may write to the data folder. Does nothing on Windows.
 * @returns sentences for the operator: what has been changed, and what is left to do
 */
export function closeToOthers(folder: string, databasePath: string): readonly string[] {
  if (userId === undefined) return []
  const path = realPathOf(databasePath)
  const files = ['', '-wal', '-shm'].map((beside) => path + beside)
  const sentences = files.flatMap((file) => {
    const mode = modeOf(file)
    if (mode === undefined || (mode & 0o077) === 0) return []
    try {
      chmodSync(file, mode & 0o700)
      return [`${file} was open to others (mode ${octal(mode)}), and is not any more (mode ${octal(mode & 0o700)}).`]
    } catch {
      return [`${file} is open to others (mode ${octal(mode)}). Let its owner run: chmod go= ${file}`]
    }
  })
  const mode = modeOf(folder) ?? 0
  if ((mode & 0o022) !== 0) {
    sentences.push(
      `Others may write to the data folder ${folder} (mode ${octal(mode)}). Let its owner run: chmod go-w ${folder}`,
    )
  }
  return sentences
}

function modeOf(path: string): number | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && stats.mode & 0o7777
}

const octal = (mode: number) => mode.toString(8).padStart(4, '0')
