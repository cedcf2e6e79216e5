import { chmodSync, statSync } from 'node:fs'

/** Whether this is Windows, which knows no owners and modes of files, and renames nothing over an open file. */
export const isWindows = process.platform === 'win32'

/** The number of the user that the process runs as; undefined where a system has none. */
export const userId = process.getuid?.()

/**
 * Takes others' rights from the files of a database, which an earlier version may have made for all to read, and looks
 * whether others may write to the data folder. Where a system knows no such rights, there is nothing to do.
 * @returns what has been done, and what is left to the operator, each as a sentence
 */
export function closeToOthers(folder: string, databasePath: string): readonly string[] {
  if (userId === undefined) return []
  const files = ['', '-wal', '-shm'].map((beside) => databasePath + beside)
  const told = files.flatMap((file) => {
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
    told.push(
      `Others may write to the data folder ${folder} (mode ${octal(mode)}). Let its owner run: chmod go-w ${folder}`,
    )
  }
  return told
}

function modeOf(path: string): number | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && stats.mode & 0o7777
}

const octal = (mode: number) => mode.toString(8).padStart(4, '0')
