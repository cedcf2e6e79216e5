import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareFolder } from '../storage/data-folder.ts'

/** Opens a new file without a name. The system removes the file when the process ends, even in a crash. */
export async function namelessFile(folder: string): Promise<FileHandle> {
  prepareFolder(folder)
  const path = join(folder, `nameless-${randomUUID()}.part`)
  const handle = await open(path, 'w+', 0o600)
  rmSync(path)
  return handle
}
