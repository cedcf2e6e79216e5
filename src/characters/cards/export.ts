import { freeBytes } from '../../bytes.ts'
import { type Fields, isFields, valueIn } from '../../fields.ts'
import { type Steps, workAtOnce } from '../../work.ts'
import { CardError } from '../documents/card-error.ts'
import { writeJsonDocument } from '../documents/json-document.ts'
import { type CarriedAssets, carryAssets, tooLargeFile } from './carried.ts'
import { writeCharx } from './charx.ts'
import { toBackfill, toVersion } from './conversion.ts'
import { type CardText, placeholderPicture, writePngCards } from './png.ts'
import { type CardSource, type ExportFormat, maxFileBytes } from './source.ts'
import { cardVersion } from './versions.ts'

/** A card's file. */
export interface ExportedCard {
  readonly bytes: Buffer
  /** Parts of the source that the file does not contain, one sentence each. */
  readonly losses: readonly string[]
}

/**
 * Writes a card's file. An unedited source in its own format is returned byte for byte. In other exports, unknown fields and texts
 * are unchanged, but in V2 lore has no decorators.
 * @param now milliseconds; the modification date of an edited card
 * @throws CardError if the file would be too large or nested too deeply to be read again
 */
export function* exportSteps(source: CardSource, format: ExportFormat, now = Date.now()): Steps<ExportedCard> {
  if (!source.isEdited && isOwnFormat(source, format)) return { bytes: source.bytes, losses: [] }
  const written = format === 'v2' ? yield* toVersion(source.document, 'v2') : yield* version3(source, now)
  const carried = yield* carryAssets(source, written, format)
  const bytes = yield* writers[format](carried, source)
  // `bytes` has copies of the packed files. Views of the source (its picture, a PNG asset without base64) are not freed.
  for (const piece of carried.files.flatMap(({ packed }) => packed)) {
    if (piece.buffer !== source.bytes.buffer) freeBytes(piece)
  }
  if (bytes.length > maxFileBytes) throw tooLargeFile()
  return { bytes, losses: carried.losses }
}

/** Runs `exportSteps` without interruption, for commands. */
export function exportCard(source: CardSource, format: ExportFormat, now = Date.now()): ExportedCard {
  return workAtOnce().run('format', exportSteps(source, format, now))
}

const writers: Readonly<Record<ExportFormat, (carried: CarriedAssets, source: CardSource) => Steps<Buffer>>> = {
  *json({ document }) {
    return yield* writeJsonDocument(document)
  },
  *v2({ document }) {
    return yield* writeJsonDocument(document)
  },
  *charx({ document, files }, { container, bytes }) {
    return yield* writeCharx(yield* writeJsonDocument(document), container === 'charx' ? bytes : undefined, files)
  },
  *png({ document, picture }, { container, bytes }) {
    const first: CardText = { keyword: 'ccv3', document: yield* writeJsonDocument(document) }
    const texts = [first, ...(yield* backfill(document))]
    return yield* writePngCards(container === 'png' ? bytes : (picture ?? placeholderPicture()), texts)
  },
}

function isOwnFormat({ container, document }: CardSource, format: ExportFormat): boolean {
  if (container !== 'json') return container === format
  return cardVersion(document) === (format === 'json' ? 'v3' : format)
}

/** The V3 document, with its modification date set if it was edited (V3, "modification_date"). */
function* version3({ document, isEdited }: CardSource, now: number): Steps<Fields> {
  const converted = yield* toVersion(document, 'v3')
  const data = valueIn(converted, 'data')
  if (!isEdited || !isFields(data)) return converted
  return { ...converted, data: { ...data, modification_date: Math.floor(now / 1000) } }
}

/** The V2 copy of the card for a picture. It is optional in V3 ("PNG/APNG"), and left out if it would be too large to be read. */
function* backfill(document: Fields): Steps<readonly CardText[]> {
  try {
    return [{ keyword: 'chara', document: yield* writeJsonDocument(yield* toBackfill(document)) }]
  } catch (error) {
    if (error instanceof CardError) return []
    throw error
  }
}
