import { createHash, randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { AccessError } from '../access/access.ts'
import { inputBytes } from '../print.ts'
import { prepareFolder } from '../storage/data-folder.ts'

const pieceBytes = 64 * 1024

/** A file of an account, for an import. */
export interface ImportSource {
  /** The SHA-256 of the file, in hexadecimal digits, when it was last read to its end. */
  readonly digest: string
  /** Reads the whole file. */
  bytes(): AsyncIterable<Buffer>
  /** Where the plant with this index is in the file, such as `Line 7`. */
  placeOf(index: number): string
}

/** A file that can be read several times, even if it comes from a pipe. */
export class InputFile implements ImportSource {
  readonly #handle: FileHandle
  /** The SHA-256 of the file, in hexadecimal digits, when it was last read to its end. */
  digest = ''

  private constructor(handle: FileHandle) {
    this.#handle = handle
  }

  /**
   * Opens a file, or stdin if there is no path. Input that can be read only once is first copied into a file without a name in
   * `folder`. The system removes this file when the process ends.
   * @throws AccessError when the file cannot be read
   */
  static async open(path: string | undefined, folder: string): Promise<InputFile> {
    if (path === undefined) return new InputFile(await copied(inputBytes(), folder))
    const unreadable = (cause: unknown) =>
      new AccessError(`The file ${JSON.stringify(path)} cannot be read.`, 'refused', { cause })
    const handle = await open(path).catch((cause: unknown) => {
      throw unreadable(cause)
    })
    const stat = await handle.stat()
    if (stat.isFile()) return new InputFile(handle)
    if (!stat.isDirectory()) return new InputFile(await copied(handle.createReadStream(), folder))
    await handle.close()
    throw unreadable(undefined)
  }

  /** Reads the whole file, and sets its digest at the end. Each piece overwrites the bytes of the piece before. */
  async *bytes(): AsyncGenerator<Buffer> {
    const hash = createHash('sha256')
    const piece = Buffer.alloc(pieceBytes)
    for (let position = 0; ; ) {
      const { bytesRead } = await this.#handle.read(piece, 0, pieceBytes, position)
      if (bytesRead === 0) break
      position += bytesRead
      const bytes = piece.subarray(0, bytesRead)
      hash.update(bytes)
      yield bytes
    }
    this.digest = hash.digest('hex')
  }

  placeOf(index: number): string {
    // The first line is the header.
    return `Line ${index + 2}`
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }
}

async function copied(bytes: AsyncIterable<Buffer | string>, folder: string): Promise<FileHandle> {
  const handle = await namelessFile(folder)
  try {
    for await (const piece of bytes) await handle.writeFile(piece)
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Opens a new file without a name. The system removes the file when the process ends, even in a crash. */
export async function namelessFile(folder: string): Promise<FileHandle> {
  prepareFolder(folder)
  const path = join(folder, `nameless-${randomUUID()}.part`)
  const handle = await open(path, 'w+', 0o600)
  rmSync(path)
  return handle
}
