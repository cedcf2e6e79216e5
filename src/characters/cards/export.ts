import { type Fields, isFields, valueIn } from '../../fields.ts'
import { CardError } from '../documents/card-error.ts'
import { writeJsonDocument } from '../documents/json-document.ts'
import { type CarriedAssets, carryAssets, tooLargeFile } from './carried.ts'
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
 * Writes a card's file. An unedited source in its own format is returned byte for byte. Other exports keep unknown fields and
 * texts unchanged, except that lore in V2 has no decorators.
 * @param now the modification date of an edited card, in milliseconds
 * @throws CardError if the file would be too large or nested too deeply to be read again
 */
export function exportCard(source: CardSource, format: ExportFormat, now = Date.now()): ExportedCard {
  if (!source.isEdited && isOwnFormat(source, format)) return { bytes: source.bytes, losses: [] }
  const written = format === 'v2' ? toVersion(source.document, 'v2') : version3(source, now)
  const carried = carryAssets(source, written, format)
  const bytes = writers[format](carried, source)
  if (bytes.length > maxFileBytes) throw tooLargeFile()
  return { bytes, losses: carried.losses }
}

const writers: Readonly<Record<ExportFormat, (carried: CarriedAssets, source: CardSource) => Buffer>> = {
  json({ document }) {
    return writeJsonDocument(document)
  },
  v2({ document }) {
    return writeJsonDocument(document)
  },
  charx({ document, files }, { container, bytes }) {
    return writeCharx(writeJsonDocument(document), container === 'charx' ? bytes : undefined, files)
  },
  png({ document, picture }, { container, bytes }) {
    const first: CardText = { keyword: 'ccv3', document: writeJsonDocument(document) }
    const texts = [first, ...backfill(document)]
    return writePngCards(container === 'png' ? bytes : (picture ?? placeholderPicture()), texts)
  },
}

function isOwnFormat({ container, document }: CardSource, format: ExportFormat): boolean {
  if (container !== 'json') return container === format
  return cardVersion(document) === (format === 'json' ? 'v3' : format)
}

/** The V3 document, with its modification date set if it was edited (V3, "modification_date"). */
function version3({ document, isEdited }: CardSource, now: number): Fields {
  const converted = toVersion(document, 'v3')
  const data = valueIn(converted, 'data')
  if (!isEdited || !isFields(data)) return converted
  return { ...converted, data: { ...data, modification_date: Math.floor(now / 1000) } }
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
