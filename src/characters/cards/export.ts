import type { Fields } from '../../fields.ts'
import { CardError } from '../documents/card-error.ts'
import { writeJsonDocument } from '../documents/json-document.ts'
import { AssetCarrier, tooLargeFile } from './carried.ts'
import { writeCharx } from './charx.ts'
import { toBackfill, toVersion } from './conversion.ts'
import { type CardText, placeholderPicture, writePngCards } from './png.ts'
import { type CardSource, type ExportFormat, maxFileBytes } from './source.ts'
import { cardVersion } from './versions.ts'

/** The file of an exported card. */
export interface ExportedCard {
  readonly bytes: Buffer
  /** Parts of the source that the file does not contain, one sentence each. */
  readonly losses: readonly string[]
}

/**
 * Writes a card's file. A source in its own format is returned byte for byte. Other exports keep unknown fields and texts
 * unchanged, except that lore in V2 has no decorators.
 * @throws CardError if the file would be too large or nested too deeply to be read again
 */
export function exportCard(source: CardSource, format: ExportFormat): ExportedCard {
  if (isOwnFormat(source, format)) return { bytes: source.bytes, losses: [] }
  const carrier = new AssetCarrier(source, format)
  const document = carrier.carry(toVersion(source.document, format === 'v2' ? 'v2' : 'v3'))
  const bytes = fileOf(document, format, carrier)
  if (bytes.length > maxFileBytes) throw tooLargeFile()
  return { bytes, losses: carrier.losses() }
}

function fileOf(document: Fields, format: ExportFormat, { picture, files }: AssetCarrier): Buffer {
  const json = writeJsonDocument(document)
  if (format === 'charx') return writeCharx(json, files)
  if (format !== 'png') return json
  return writePngCards(picture ?? placeholderPicture(), [{ keyword: 'ccv3', document: json }, ...backfill(document)])
}

function isOwnFormat({ container, document }: CardSource, format: ExportFormat): boolean {
  if (container !== 'json') return container === format
  return cardVersion(document) === (format === 'json' ? 'v3' : format)
}

/** The V2 copy of the card for a picture. It is optional in V3 ("PNG/APNG"), and left out if the service could not read it. */
function backfill(document: Fields): readonly CardText[] {
  try {
    return [{ keyword: 'chara', document: writeJsonDocument(toBackfill(document)) }]
  } catch (error) {
    if (error instanceof CardError) return []
    throw error
  }
}
