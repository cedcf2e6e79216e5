import { accessSync, constants, existsSync, mkdirSync, opendirSync } from 'node:fs'
import { dirname } from 'node:path'

/** A fault of the data folder or the database that the operator can mend; its message is one clear line. */
export class StorageError extends Error {
  override readonly name = 'StorageError'
}

/**
 * Makes the data folder when it is not there, and makes sure that it can be written.
 * @throws StorageError when it cannot
 */
export function prepareFolder(path: string): void {
  try {
    makeFolder(path)
    // Opening it fails where the path is a file.
    opendirSync(path).closeSync()
    accessSync(path, constants.W_OK)
  } catch (error) {
    throw new StorageError(`The data folder ${path} cannot be written. Set DATA_DIR to a folder that can.`, {
      cause: error,
    })
  }
}

/** Like mkdir -p. Node's own `recursive` never returns where the system answers ENOENT for good, as under /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent)
  try {
    mkdirSync(path)
  } catch (error) {
    // Another process may have been quicker.
    if (!existsSync(path)) throw error
  }
}
