import { crc32, deflateSync } from 'node:zlib'
import { lengthOf } from '../../bytes.ts'
import type { Fields } from '../../fields.ts'
import { PictureError } from '../../pictures/parts.ts'
import {
  checksumBytes,
  checksumOf,
  type PngChunk,
  pngChunk,
  pngChunks,
  pngSignature,
  strippedPng,
} from '../../pictures/png.ts'
import { spend } from '../../work/fuel.ts'
import { CardError } from '../documents/card-error.ts'
import { maxDocumentBytes, readJsonDocument } from '../documents/json-document.ts'
import { decodePayload, inflate } from './payload.ts'
import { cardVersion } from './versions.ts'

/*
 * Cards in PNG and APNG pictures: text chunks whose keyword is `ccv3` or `chara` (Character Card V3, "PNG/APNG").
 * Sections are those of the PNG specification, third edition (https://www.w3.org/TR/png-3/).
 */

/** Units of work for each chunk, besides its bytes. */
const unitsOfChunk = 50

/** The card in a file, and the faults that were tolerated, one sentence each. */
export interface FoundCard {
  readonly document: Fields
  /** The document's JSON. */
  readonly json: Buffer
  readonly warnings: readonly string[]
}

/** A card to put into a picture, and the keyword of its text chunk. */
export interface CardText {
  readonly keyword: 'ccv3' | 'chara'
  readonly document: Buffer
}

/** Whether the bytes begin with PNG's signature. */
export function isPng(bytes: Buffer): boolean {
  return bytes.subarray(0, pngSignature.length).equals(pngSignature)
}

/**
 * Reads the card in a picture: the first `ccv3` chunk. If it is missing or unusable, the first `chara` chunk is read.
 * @throws CardError if there is no card, or no readable card
 */
export function readPngCard(bytes: Buffer): FoundCard {
  const chunks = new Map<string, PngChunk>()
  for (const chunk of chunksOf(bytes)) {
    spend(unitsOfChunk)
    const keyword = cardKeyword(chunk)
    if (keyword !== undefined && !chunks.has(keyword)) chunks.set(keyword, chunk)
  }
  const version3 = chunks.get('ccv3')
  const version2 = chunks.get('chara')
  if (version3 === undefined) {
    if (version2) return readCardChunk(version2)
    throw new CardError('card_not_found_in_image', 'The picture holds no card. Send the original file of the card.')
  }
  try {
    return readCardChunk(version3)
  } catch (error) {
    const fallback = error instanceof CardError && version2 ? readIfUsable(version2) : undefined
    if (fallback === undefined) throw error
    return { ...fallback, warnings: ["The picture's V3 card is unusable; its V2 copy was read.", ...fallback.warnings] }
  }
}

/** Puts cards into a picture, before its end chunk. The new cards replace all earlier cards. Wrong checksums are replaced. */
export function writePngCards(picture: Buffer, texts: readonly CardText[]): Buffer {
  const parts = keepChunks(picture, (chunk) => cardKeyword(chunk) === undefined)
  for (const { keyword, document } of texts) {
    const text = Buffer.from(`${keyword}\0${document.toString('base64')}`, 'latin1')
    spend(text.length >> 3)
    parts.push(...pngChunk('tEXt', text, crc32(text, crc32('tEXt'))))
  }
  parts.push(...pngChunk('IEND'))
  return Buffer.concat(parts)
}

/** The pieces of a card's picture without the card and its assets; other text chunks stay. */
export function pictureOf(bytes: Buffer): readonly Buffer[] {
  const parts = keepChunks(bytes, (chunk) => cardKeyword(chunk) === undefined && assetPath(chunk) === undefined)
  return [...parts, ...pngChunk('IEND')]
}

/**
 * The pieces of a picture with only some of its chunks, and without its end chunk. Kept chunks that follow one another are one view
 * of the picture, because a view takes 100 bytes of memory, and a chunk may have 12. Wrong checksums are replaced.
 */
function keepChunks(bytes: Buffer, keeps: (chunk: PngChunk) => boolean): Buffer[] {
  const parts: Buffer[] = []
  let [start, end] = [0, pngSignature.length]
  for (const chunk of chunksOf(bytes)) {
    spend(unitsOfChunk)
    if (chunk.type === 'IEND' || !keeps(chunk)) continue
    if (chunk.start !== end) {
      parts.push(bytes.subarray(start, end))
      start = chunk.start
    }
    end = chunk.end
    const checksum = crc32(chunk.checked)
    if (checksum === chunk.checksum) continue
    parts.push(bytes.subarray(start, end - checksumBytes), checksumOf(checksum))
    start = end
  }
  parts.push(bytes.subarray(start, end))
  return parts
}

/**
 * The texts of the assets in a picture's chunks, by path. If several assets have one path, the first counts.
 * @throws CardError when the picture is damaged
 */
export function assetTexts(bytes: Buffer): ReadonlyMap<string, Buffer> {
  const texts = new Map<string, Buffer>()
  for (const chunk of chunksOf(bytes)) {
    spend(unitsOfChunk)
    const path = assetPath(chunk)
    if (path !== undefined && !texts.has(path)) texts.set(path, textOf(chunk))
  }
  return texts
}

/** The path of the asset in a text chunk (V3, "PNG/APNG"); older files of RisuAI lack the colon. */
function assetPath({ type, data }: PngChunk): string | undefined {
  if (type !== 'tEXt') return undefined
  return /^chara-ext-asset_:?([^\0]{1,200})\0/.exec(data.toString('latin1', 0, 220))?.[1]
}

/** Whether a picture is `placeholderPicture`. */
export function isPlaceholder(picture: Buffer): boolean {
  const plain = placeholderPicture()
  spend(picture.length >> 5)
  try {
    const parts = strippedPng(picture)
    return lengthOf(parts) === plain.length && Buffer.concat(parts).equals(plain)
  } catch (error) {
    throw error instanceof PictureError ? toCardError(error) : error
  }
}

/** A plain grey picture in the proportions of a portrait, for cards without a picture. */
export function placeholderPicture(): Buffer {
  const [width, height] = [256, 384]
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Section 11.2.1: 8 bits a sample. The other bytes are 0: greyscale, the only defined methods, and no interlacing.
  header[8] = 8
  // Section 7.3: each line begins with its filter type, 0 for none.
  const line = Buffer.alloc(1 + width, 0x80).fill(0, 0, 1)
  const pixels = deflateSync(Buffer.concat(Array<Buffer>(height).fill(line)))
  return Buffer.concat([pngSignature, ...pngChunk('IHDR', header), ...pngChunk('IDAT', pixels), ...pngChunk('IEND')])
}

/** The chunks of a picture. @throws CardError when the picture is damaged */
function* chunksOf(bytes: Buffer): Generator<PngChunk> {
  try {
    yield* pngChunks(bytes)
  } catch (error) {
    throw error instanceof PictureError ? toCardError(error) : error
  }
}

/** The refusal of a card whose picture is faulty. */
function toCardError({ reason, message }: PictureError): CardError {
  return new CardError(reason === 'damaged' ? 'card_damaged' : 'card_too_large', message)
}

/** The keyword of a text chunk that contains a card, in lower case (section 11.3.3). */
function cardKeyword({ type, data }: PngChunk): string | undefined {
  if (type !== 'tEXt' && type !== 'zTXt' && type !== 'iTXt') return undefined
  const start = data.toString('latin1', 0, 6).toLowerCase()
  return ['ccv3', 'chara'].find((keyword) => start.startsWith(`${keyword}\0`))
}

function readIfUsable(chunk: PngChunk): FoundCard | undefined {
  try {
    return readCardChunk(chunk)
  } catch (error) {
    if (error instanceof CardError) return undefined
    throw error
  }
}

function readCardChunk(chunk: PngChunk): FoundCard {
  const payload = textOf(chunk)
  spend(payload.length >> 2)
  const json = decodePayload(payload)
  const document = readJsonDocument(json, 'card_damaged')
  if (cardVersion(document) === undefined) {
    throw new CardError('card_invalid', 'The picture holds JSON, but not a character card. Send a card.')
  }
  const isIntact = crc32(chunk.checked) === chunk.checksum
  const warning = "The checksum of the picture's card is wrong; the card was read nevertheless."
  return { document, json, warnings: isIntact ? [] : [warning] }
}

/** The unpacked text of a chunk, after its keyword (sections 11.3.3.2 to 11.3.3.4). */
function textOf({ type, data }: PngChunk): Buffer {
  const rest = data.subarray(data.indexOf(0) + 1)
  if (type === 'tEXt') return rest
  if (type === 'zTXt') return unpack(rest[0], rest.subarray(1))
  const languageEnd = rest.indexOf(0, 2)
  const translationEnd = languageEnd === -1 ? -1 : rest.indexOf(0, languageEnd + 1)
  if (translationEnd === -1) throw new CardError('card_damaged', "The picture's card has no text. Send it again.")
  const text = rest.subarray(translationEnd + 1)
  return rest[0] === 0 ? text : unpack(rest[1], text)
}

function unpack(method: number | undefined, packed: Buffer): Buffer {
  if (method === 0) return inflate(packed, 'zlib', maxDocumentBytes)
  throw new CardError('card_unsupported', "The picture's card is packed in an unknown way. Save it without packing.")
}
