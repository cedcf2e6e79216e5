import { crc32, deflateRawSync } from 'node:zlib'
import { lengthOf } from '../../bytes.ts'
import { pictureFacts } from '../../pictures/facts.ts'
import { spend } from '../../work/fuel.ts'
import { deflated, looksLikeBomb, stored } from './zip.ts'

/** A file to write into an archive, with an ASCII name. Its packed bytes are pieces, so that they are copied only once. */
export interface ZipFile {
  readonly name: string
  readonly method: number
  readonly checksum: number
  readonly size: number
  readonly packed: readonly Buffer[]
}

/** Units of work for each file of an archive, besides its bytes. */
const unitsOfFile = 300
/** Units of work for each piece of a file. */
const unitsOfPiece = 20
/** Version 2.0 of the format, which has deflated files (section 4.4.3). */
const version = 20
/** 1980-01-01, the first date of the format (section 4.4.6). The date is fixed, so that the same card gives the same bytes. */
const firstDay = 0x0021

/**
 * Packs a file. Pictures are stored unpacked, because they are compressed already. Content that packs extremely well is also
 * stored unpacked, because readers would suspect a zip bomb.
 */
export function zipFile(name: string, content: Buffer): ZipFile {
  const file = storedFile(name, [content])
  if (pictureFacts(content)) return file
  const packed = deflateRawSync(content)
  spend(2 * content.length)
  if (packed.length >= content.length || looksLikeBomb(content.length, packed.length)) return file
  return { ...file, method: deflated, packed: [packed] }
}

/** Stores a file without packing it. */
export function storedFile(name: string, content: readonly Buffer[]): ZipFile {
  const checksum = content.reduce((before, piece) => crc32(piece, before), 0)
  return { name, method: stored, checksum, size: lengthOf(content), packed: content }
}

/** Writes an archive (APPNOTE.TXT, section 4.3.6). */
export function writeZip(files: readonly ZipFile[]): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const file of files) {
    spend(unitsOfFile + file.packed.length * unitsOfPiece)
    const [local, central] = headersOf(file, offset)
    parts.push(local, ...file.packed)
    directory.push(central)
    offset += local.length + lengthOf(file.packed)
  }
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(files.length, 8)
  end.writeUInt16LE(files.length, 10)
  end.writeUInt32LE(lengthOf(directory), 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, ...directory, end])
}

/** A file's local header (section 4.3.7), and its header in the directory (section 4.3.12), which has the same fields and more. */
function headersOf({ name, method, checksum, size, packed }: ZipFile, offset: number): readonly [Buffer, Buffer] {
  const central = Buffer.alloc(46)
  central.writeUInt32LE(0x02014b50, 0)
  central.writeUInt16LE(version, 4)
  central.writeUInt16LE(version, 6)
  central.writeUInt16LE(method, 10)
  central.writeUInt16LE(firstDay, 14)
  central.writeUInt32LE(checksum, 16)
  central.writeUInt32LE(lengthOf(packed), 20)
  central.writeUInt32LE(size, 24)
  central.writeUInt16LE(name.length, 28)
  central.writeUInt32LE(offset, 42)
  const local = Buffer.alloc(30)
  local.writeUInt32LE(0x04034b50, 0)
  central.copy(local, 4, 6, 32)
  const nameBytes = Buffer.from(name, 'latin1')
  return [Buffer.concat([local, nameBytes]), Buffer.concat([central, nameBytes])]
}
