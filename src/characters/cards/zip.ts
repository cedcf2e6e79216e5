import { crc32 } from 'node:zlib'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import { inflate } from './payload.ts'

/*
 * Zip archives, as far as cards need them. Section numbers are those of PKWARE's APPNOTE.TXT, version 6.3.10
 * (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT). Names are compared, never used as paths.
 */

/** A file of an archive: its fields in the central directory (section 4.3.12), and its stored bytes. */
export interface ZipEntry {
  /** The bytes of the name as Latin-1 characters, so that different names stay different. ASCII names are unchanged. */
  readonly name: string
  readonly isSymbolicLink: boolean
  readonly method: number
  readonly flags: number
  readonly checksum: number
  readonly size: number
  /** The stored bytes: a view, not a copy. */
  readonly packed: Buffer
  /** The offset of the first byte of the entry's local header, and the offset after the last byte of the entry. */
  readonly start: number
  readonly end: number
  /** Whether the local header and the directory have the same name and method. If not, programs would read different files. */
  readonly isConsistent: boolean
  /** The offset of the next header in the directory. */
  readonly next: number
}

/** The methods of files that are not packed, and of deflated files (section 4.4.5). */
export const stored = 0
export const deflated = 8

const localSignature = 0x04034b50
const centralSignature = 0x02014b50
const endSignature = 0x06054b50
const endLength = 22
const centralLength = 46
const localLength = 30
const maxCommentBytes = 0xffff
/** The most files of an archive that is read or written. */
export const maxEntries = 4_000
/**
 * The longest name that is compared with other names. V8 hashes a string of more than 16,383 characters by its length alone, so
 * many long names would make a map slow.
 */
export const maxNameBytes = 1000
/** The most bytes of the central directory, which lists the files: a thousand for each file. The names stay in memory. */
const maxDirectoryBytes = 4 * 1024 ** 2
/** The largest allowed ratio of a file's size to its packed size. Text has about 5, a zip bomb about 1000. */
const maxRatio = 200
/** Units of work for each file of an archive, besides its name. */
const unitsOfEntry = 300
/** Section 4.4.4: bit 0 is encryption, 6 strong encryption, 13 an encrypted directory. */
const encryptionFlags = 0x2041

/** Whether the bytes end with an archive's end record. Other bytes may stand before the archive. */
export function isZip(bytes: Buffer): boolean {
  return findEnd(bytes) !== undefined
}

/**
 * Lists an archive's files without unpacking any.
 * @throws CardError when the archive is damaged, split or in Zip64 format, has too many files or too long names, or has files that
 *   overlap
 */
export function listZip(bytes: Buffer): readonly ZipEntry[] {
  const end = findEnd(bytes) ?? fail('it has no end record')
  const count = bytes.readUInt16LE(end + 10)
  const directoryStart = end - bytes.readUInt32LE(end + 12)
  // If other bytes stand before the archive, its offsets count from the start of the archive, or from the start of the file. The
  // position of the directory shows which. `shift` is added to each offset.
  const shift = directoryStart - bytes.readUInt32LE(end + 16)
  if (bytes.readUInt32LE(end + 4) !== 0 || count === 0xffff || bytes.readUInt32LE(end + 16) === 0xffffffff) {
    throw new CardError('card_unsupported', 'The archive is split or in Zip64 format. Pack it as an ordinary zip.')
  }
  if (count > maxEntries)
    throw new CardError('card_too_large', `The archive has more than ${maxEntries} files. Leave some out.`)
  if (directoryStart < 0 || shift < 0) fail('its directory is not where its end record says')
  if (end - directoryStart > maxDirectoryBytes) {
    const message = `The list of the archive's files has more than ${maxDirectoryBytes} bytes. Shorten the names of the files.`
    throw new CardError('card_too_large', message)
  }
  const entries: ZipEntry[] = []
  let offset = directoryStart
  while (entries.length < count) {
    const entry = readEntry(bytes, offset, shift, { directoryStart, end })
    entries.push(entry)
    spend(unitsOfEntry + (entry.name.length >> 3))
    offset = entry.next
  }
  if (offset !== end) fail('its directory is not as long as its end record says')
  checkOverlaps(entries)
  return entries
}

/**
 * Unpacks a file.
 * @throws CardError if the file is encrypted, damaged, packed in an unknown way, or larger than `maxBytes`, or if its size is
 *   more than 200 times its packed size
 */
export function unzip(entry: ZipEntry, maxBytes: number): Buffer {
  if ((entry.flags & encryptionFlags) !== 0) {
    throw new CardError('card_unsupported', 'The archive is encrypted. Pack it without a password.')
  }
  if (entry.method !== stored && entry.method !== deflated) {
    throw new CardError('card_unsupported', 'The archive is packed in an unusual way. Pack it as an ordinary zip.')
  }
  if (!entry.isConsistent) fail('its directory and its files disagree')
  if (entry.size > maxBytes)
    throw new CardError('card_too_large', `A file of the archive is larger than ${maxBytes} bytes. Shorten it.`)
  const content = entry.method === stored ? entry.packed : inflateEntry(entry)
  const isIntact = content.length === entry.size && crc32(content) === entry.checksum
  if (!isIntact) fail('a checksum or a length is wrong')
  return content
}

/** Unpacks a file up to its declared size. */
function inflateEntry({ packed, size }: ZipEntry): Buffer {
  if (looksLikeBomb(size, packed.length)) {
    throw new CardError(
      'card_too_large',
      `A file of the archive unpacks to more than ${maxRatio} times its packed size. Pack it with less compression.`,
    )
  }
  try {
    return inflate(packed, 'none', size)
  } catch (error) {
    if (error instanceof CardError && error.code === 'card_too_large') fail('a checksum or a length is wrong')
    throw error
  }
}

/** Whether a file of this size packs so well that `unzip` would refuse it. */
export function looksLikeBomb(size: number, packedSize: number): boolean {
  return size > packedSize * maxRatio
}

/** The offset of the end record that ends exactly at the end of the file (section 4.3.16). */
function findEnd(bytes: Buffer): number | undefined {
  const first = Math.max(0, bytes.length - endLength - maxCommentBytes)
  for (let offset = bytes.length - endLength; offset >= first; offset--) {
    if (bytes.readUInt32LE(offset) !== endSignature) continue
    if (offset + endLength + bytes.readUInt16LE(offset + 20) === bytes.length) return offset
  }
  return undefined
}

function readEntry(
  bytes: Buffer,
  offset: number,
  shift: number,
  { directoryStart, end }: { readonly directoryStart: number; readonly end: number },
): ZipEntry {
  if (offset + centralLength > end || bytes.readUInt32LE(offset) !== centralSignature) fail('its directory is damaged')
  const header = bytes.subarray(offset, offset + centralLength)
  const nameEnd = offset + centralLength + header.readUInt16LE(28)
  const next = nameEnd + header.readUInt16LE(30) + header.readUInt16LE(32)
  if (next > end) fail('its directory is damaged')
  const name = bytes.toString('latin1', offset + centralLength, nameEnd)
  const start = shift + header.readUInt32LE(42)
  const local = readLocalHeader(bytes, start, directoryStart)
  const dataEnd = local.dataStart + header.readUInt32LE(20)
  if (dataEnd > directoryStart) fail('a file in it ends after the end of the archive')
  return {
    name,
    // Section 4.4.2: 3 means Unix, whose attributes have the file type in their upper half.
    isSymbolicLink: header[5] === 3 && (header.readUInt16LE(40) & 0xf000) === 0xa000,
    method: header.readUInt16LE(10),
    flags: header.readUInt16LE(8),
    checksum: header.readUInt32LE(16),
    size: header.readUInt32LE(24),
    packed: bytes.subarray(local.dataStart, dataEnd),
    start,
    end: dataEnd,
    isConsistent: local.name === name && local.method === header.readUInt16LE(10),
    next,
  }
}

/** Reads a file's local header (section 4.3.7). */
function readLocalHeader(bytes: Buffer, start: number, limit: number) {
  const nameStart = start + localLength
  if (nameStart > limit || bytes.readUInt32LE(start) !== localSignature)
    fail('a file in it is not where the directory says')
  const nameEnd = nameStart + bytes.readUInt16LE(start + 26)
  return {
    name: bytes.toString('latin1', nameStart, nameEnd),
    method: bytes.readUInt16LE(start + 8),
    dataStart: nameEnd + bytes.readUInt16LE(start + 28),
  }
}

function checkOverlaps(entries: readonly ZipEntry[]): void {
  const inOrder = entries.toSorted((one, other) => one.start - other.start)
  let end = 0
  for (const entry of inOrder) {
    if (entry.start < end) fail('files in it overlap')
    end = entry.end
  }
}

function fail(reason: string): never {
  throw new CardError('card_damaged', `The archive is damaged: ${reason}. Pack it again.`)
}
