import { crc32, deflateRawSync } from 'node:zlib'

/*
 * Makes valid and malformed PNG files and zip archives, by the specifications of the formats and without the code under test.
 */

const pngSignature = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')

/** One chunk, optionally with a wrong length or checksum. */
export function pngChunk(
  type: string,
  data: Buffer | string = '',
  { length, checksum }: { readonly length?: number; readonly checksum?: number } = {},
): Buffer {
  const content = typeof data === 'string' ? Buffer.from(data, 'latin1') : data
  const checked = Buffer.concat([Buffer.from(type, 'latin1'), content])
  return Buffer.concat([uint32(length ?? content.length), checked, uint32(checksum ?? crc32(checked))])
}

/** The chunks of a picture of one pixel, without its last chunk (IEND). */
export const onePixel = [
  pngChunk('IHDR', Buffer.from('00000001000000010800000000', 'hex')),
  pngChunk('IDAT', Buffer.from('789c6360000000020001', 'hex')),
]

/** A picture of one pixel with these chunks before its end. */
export function png(...chunks: readonly Buffer[]): Buffer {
  return Buffer.concat([pngSignature, ...onePixel, ...chunks, pngChunk('IEND')])
}

/** A `tEXt` chunk with a card in base64. */
export function cardChunk(keyword: string, card: unknown, faults: { readonly checksum?: number } = {}): Buffer {
  return pngChunk('tEXt', `${keyword}\0${base64(card)}`, faults)
}

export function base64(card: unknown): string {
  return Buffer.from(JSON.stringify(card)).toString('base64')
}

/** The types and data of a picture's chunks, with whether the checksum is right. */
export function chunksIn(picture: Buffer): readonly { type: string; data: Buffer; isSound: boolean }[] {
  const chunks = []
  for (let offset = 8; offset < picture.length; ) {
    const end = offset + 8 + picture.readUInt32BE(offset)
    const isSound = crc32(picture.subarray(offset + 4, end)) === picture.readUInt32BE(end)
    chunks.push({
      type: picture.toString('latin1', offset + 4, offset + 8),
      data: picture.subarray(offset + 8, end),
      isSound,
    })
    offset = end + 4
  }
  return chunks
}

/** A file of an archive. The optional fields put wrong values into its headers. */
export interface ZipMember {
  readonly name: string
  readonly content?: Buffer | string
  /** The bytes that stand in place of the packed content. */
  readonly packed?: Buffer
  readonly method?: number
  readonly flags?: number
  readonly size?: number
  readonly checksum?: number
  readonly attributes?: number
  /** The name in the file's own header. */
  readonly localName?: string
  /** The offset of the file in the directory. */
  readonly offset?: number
}

/** Makes an archive. @param options `shift` is added to all offsets, as if bytes stood before the archive */
export function zip(
  members: readonly ZipMember[],
  { shift = 0, count }: { readonly shift?: number; readonly count?: number } = {},
): Buffer {
  const locals: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const member of members) {
    const content = Buffer.from(member.content ?? '')
    const method = member.method ?? 8
    const packed = member.packed ?? (method === 8 ? deflateRawSync(content) : content)
    const common = Buffer.concat([
      ...[20, member.flags ?? 0, method, 0, 0x21].map(uint16Little),
      ...[member.checksum ?? crc32(content), packed.length, member.size ?? content.length].map(uint32Little),
    ])
    const localName = Buffer.from(member.localName ?? member.name)
    const local = Buffer.concat([
      ...[uint32Little(0x04034b50), common, uint16Little(localName.length), uint16Little(0), localName, packed],
    ])
    const name = Buffer.from(member.name)
    directory.push(
      Buffer.concat([
        ...[uint32Little(0x02014b50), uint16Little(member.attributes === undefined ? 20 : 0x0314), common],
        ...[name.length, 0, 0, 0, 0].map(uint16Little),
        ...[member.attributes ?? 0, member.offset ?? offset + shift].map(uint32Little),
        name,
      ]),
    )
    locals.push(local)
    offset += local.length
  }
  const length = directory.reduce((sum, { length }) => sum + length, 0)
  const counts = [0, 0, count ?? members.length, count ?? members.length].map(uint16Little)
  return Buffer.concat([
    ...[...locals, ...directory, uint32Little(0x06054b50), ...counts],
    ...[uint32Little(length), uint32Little(offset + shift), uint16Little(0)],
  ])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function uint32Little(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value >>> 0)
  return bytes
}

function uint16Little(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16LE(value)
  return bytes
}
