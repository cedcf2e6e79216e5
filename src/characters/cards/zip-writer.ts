import { crc32, deflateRawSync } from 'node:zlib'
import { lengthOf } from '../../bytes.ts'
import { pictureFacts } from '../../pictures/facts.ts'
import { spend } from '../../work/fuel.ts'
import { looksLikeBomb, type ZipEntry } from './zip.ts'

/** A file to write into an archive. Its packed bytes are pieces, so that they are copied only once, into the archive. */
export interface ZipFile
  extends Pick<ZipEntry, 'name' | 'method' | 'flags' | 'checksum' | 'size' | 'header' | 'trailer'> {
  readonly packed: readonly Buffer[]
}

/** Units of work for each file of an archive, besides its bytes. */
const unitsOfFile = 300
/** Units of work for each piece of a file. */
const unitsOfPiece = 20
/** APPNOTE.TXT, section 4.4.4, bit 3: the sizes follow the file. This writer clears the bit, and puts the sizes first. */
const sizesFollow = 0x0008
/** 1980-01-01, the first date of the format (section 4.4.6). The date is fixed, so that the same card gives the same bytes. */
const firstDay = 0x0021

/**
 * Packs a file. Pictures are stored unpacked, because they are compressed already. Content that packs extremely well is also
 * stored unpacked, because readers would suspect a zip bomb.
 */
export function zipFile(name: string, content: Buffer): ZipFile {
  const stored = storedFile(name, [content])
  if (pictureFacts(content)) return stored
  const packed = deflateRawSync(content)
  spend(2 * content.length)
  if (packed.length >= content.length || looksLikeBomb(content.length, packed.length)) return stored
  return { ...stored, method: deflated, header: headerOf(deflated), packed: [packed] }
}

/** Stores a file without packing it. */
export function storedFile(name: string, content: readonly Buffer[]): ZipFile {
  let checksum = 0
  for (const piece of content) checksum = crc32(piece, checksum)
  const size = lengthOf(content)
  return { name, method: 0, flags: 0, checksum, size, packed: content, header: headerOf(0), trailer: Buffer.alloc(0) }
}

/** The method of deflated files (section 4.4.5). */
const deflated = 8

/** A header in the directory, without a name and sizes. */
function headerOf(method: number): Buffer {
  const header = Buffer.alloc(46)
  header.writeUInt32LE(0x02014b50, 0)
  header.writeUInt16LE(20, 4)
  header.writeUInt16LE(20, 6)
  header.writeUInt16LE(method, 10)
  header.writeUInt16LE(firstDay, 14)
  return header
}

/** Writes an archive (APPNOTE.TXT, section 4.3.6). @param prefix bytes before the archive, such as a picture */
export function writeZip(files: readonly ZipFile[], prefix: Buffer = Buffer.alloc(0)): Buffer {
  const parts: Buffer[] = [prefix]
  const directory: Buffer[] = []
  let offset = prefix.length
  for (const file of files) {
    const local = localPart(file)
    parts.push(local)
    for (const piece of file.packed) {
      parts.push(piece)
      spend(unitsOfPiece)
    }
    directory.push(centralPart(file, offset))
    offset += local.length + lengthOf(file.packed)
    spend(unitsOfFile + (file.trailer.length >> 5))
  }
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(files.length, 8)
  end.writeUInt16LE(files.length, 10)
  end.writeUInt32LE(lengthOf(directory), 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat(parts.concat(directory, end))
}

/** A file's local header (section 4.3.7), made from a part of its header in the directory (section 4.3.12), and its name. */
function localPart(file: ZipFile): Buffer {
  const local = Buffer.alloc(30)
  local.writeUInt32LE(0x04034b50, 0)
  file.header.copy(local, 4, 6, 28)
  local.writeUInt16LE(file.flags & ~sizesFollow, 6)
  writeSizes(local, 14, file)
  local.writeUInt16LE(file.name.length, 26)
  return Buffer.concat([local, Buffer.from(file.name, 'latin1')])
}

function centralPart(file: ZipFile, offset: number): Buffer {
  const central = Buffer.from(file.header)
  central.writeUInt16LE(file.flags & ~sizesFollow, 8)
  writeSizes(central, 16, file)
  central.writeUInt16LE(file.name.length, 28)
  central.writeUInt32LE(offset, 42)
  return Buffer.concat([central, Buffer.from(file.name, 'latin1'), file.trailer])
}

function writeSizes(header: Buffer, offset: number, { checksum, packed, size }: ZipFile): void {
  header.writeUInt32LE(checksum, offset)
  header.writeUInt32LE(lengthOf(packed), offset + 4)
  header.writeUInt32LE(size, offset + 8)
}
