import type { Fields } from '../../fields.ts'
import { CardError } from '../documents/card-error.ts'
import { readJsonDocument } from '../documents/json-document.ts'
import { readCharx } from './charx.ts'
import { type FoundCard, isPng, readPngCard } from './png.ts'
import { cardData, versionWarnings } from './versions.ts'
import { isZip } from './zip.ts'

/** The file format of a card, decided by its bytes, never by a file name or a declared type. */
export type Container = 'json' | 'png' | 'charx'

/** The formats of exports: V3 as JSON, V2 as JSON, V3 with a V2 copy in a picture, V3 in an archive. */
export const exportFormats = ['json', 'v2', 'png', 'charx'] as const
export type ExportFormat = (typeof exportFormats)[number]

/** The source of a card: the bytes of its file, and the parsed JSON document in them. */
export interface CardSource {
  readonly container: Container
  readonly bytes: Buffer
  /** The JSON object of the card. Read only its own properties, and change none. */
  readonly document: Fields
  /** Faults that were tolerated, one sentence each. */
  readonly warnings: readonly string[]
  /** The document's JSON, unpacked. */
  readonly json: Buffer
}

/** The most bytes of a file that is read or written. */
export const maxFileBytes = 64 * 1024 * 1024

/**
 * Reads the card in a JSON, PNG or CHARX file.
 * @throws CardError for every other file, with a message that quotes nothing of the file
 */
export function readCardSource(bytes: Buffer): CardSource {
  if (bytes.length > maxFileBytes) {
    throw new CardError('card_too_large', `The file is larger than ${maxFileBytes} bytes. Send a smaller one.`)
  }
  const container = containerOf(bytes)
  const { document, json, warnings } = readContainer(bytes, container)
  cardData(document)
  return { container, bytes, document, json, warnings: [...warnings, ...versionWarnings(document)] }
}

function readContainer(bytes: Buffer, container: Container): FoundCard {
  if (container === 'png') return readPngCard(bytes)
  if (container === 'charx') return readCharx(bytes)
  return { document: readJsonDocument(bytes), json: bytes, warnings: [] }
}

/** File types that users mistake for cards, by their first bytes, each with a message of its own. */
const refused = [
  [
    /^RIFF[\s\S]{4}WEBP/,
    'WEBP pictures hold no card that any card specification knows. Send a PNG, JSON or CHARX file.',
  ],
  [/^\xff\xd8\xff/, 'This JPEG picture has no CHARX archive behind it. Send a PNG, JSON or CHARX file.'],
  [/^GIF8/, 'GIF pictures hold no card. Send a PNG, JSON or CHARX file.'],
  [/^(?:\xff\xfe|\xfe\xff)/, 'The text is UTF-16. Save it as UTF-8.'],
] as const

function containerOf(bytes: Buffer): Container {
  const first = firstCharacter(bytes)
  if (first === '{') return 'json'
  if (isPng(bytes)) return 'png'
  if (isZip(bytes)) return 'charx'
  const start = bytes.toString('latin1', 0, 16)
  const refusal = refused.find(([pattern]) => pattern.test(start))
  if (refusal) throw new CardError('card_unsupported', refusal[1])
  if (start.startsWith('PK\x03\x04')) {
    throw new CardError(
      'card_damaged',
      'The archive has no end record: it was cut off or changed. Send the whole file.',
    )
  }
  if (first === '[' || first === '"') return 'json'
  throw new CardError(
    'card_invalid',
    'This is not a character card: the file is neither JSON, PNG nor CHARX. Send one of these.',
  )
}

/** Whether the bytes begin as a JSON object. */
export function startsAsJson(bytes: Buffer): boolean {
  return firstCharacter(bytes) === '{'
}

/** Bytes in which the first character of a card is searched: no real card has more white space before it. */
const maxLeadingBlankBytes = 64 * 1024

/** The first character after a byte order mark and white space as JSON defines it (RFC 8259, section 2). */
function firstCharacter(bytes: Buffer): string {
  const start = bytes.toString('latin1', 0, 3) === '\xef\xbb\xbf' ? 3 : 0
  return /[^ \t\r\n]/.exec(bytes.toString('latin1', start, maxLeadingBlankBytes))?.[0] ?? ''
}
