import { type Fields, isFields, valueIn } from '../../fields.ts'
import { type Steps, workAtOnce } from '../../work.ts'
import { CardError } from '../documents/card-error.ts'
import { writeJsonDocument } from '../documents/json-document.ts'
import { countAssets, writeCharx } from './charx.ts'
import { toBackfill, toVersion } from './conversion.ts'
import { type CardText, plainPicture, writePngCards } from './png.ts'
import { type CardSource, largestFile } from './source.ts'
import { cardVersion } from './versions.ts'

/** The forms in which cards are written: V3 as JSON, V2 as JSON, V3 with a V2 copy in a picture, V3 in an archive. */
export type ExportFormat = 'json' | 'v2' | 'png' | 'charx'

/**
 * Writes a card's file. An unedited source in its own format gives the very bytes; else texts stay verbatim and unknown
 * fields stay where they are.
 * @param now milliseconds; the modification date of a card that was edited
 * @throws CardError for a card whose file would be too large or nested too deeply to be read again
 */
export function* exportSteps(source: CardSource, format: ExportFormat, now = Date.now()): Steps<Buffer> {
  if (!source.isEdited && isOwnFormat(source, format)) return source.bytes
  const file = yield* writers[format](source, now)
  if (file.length > largestFile) {
    throw new CardError('card_too_large', `The file would be larger than ${largestFile} bytes. Choose another format.`)
  }
  return file
}

/** The same at once, for commands. */
export function exportCard(source: CardSource, format: ExportFormat, now = Date.now()): Buffer {
  return workAtOnce().run('format', exportSteps(source, format, now))
}

/** What of the source cannot be in a file of this format, one sentence each, for the operator to know. */
export function exportLosses({ container, bytes }: CardSource, format: ExportFormat): readonly string[] {
  if (container === 'png' && format !== 'png') return ['The picture of the card is not in this format.']
  const assets = container === 'charx' && format !== 'charx' ? countAssets(bytes) : 0
  return assets === 0 ? [] : [`Files of the archive that are not in this format: ${assets}.`]
}

const writers: Readonly<Record<ExportFormat, (source: CardSource, now: number) => Steps<Buffer>>> = {
  *json(source, now) {
    return yield* writeJsonDocument(yield* version3(source, now))
  },
  *v2(source) {
    return yield* writeJsonDocument(yield* toVersion(source.document, 'v2'))
  },
  *charx(source, now) {
    const document = yield* writeJsonDocument(yield* version3(source, now))
    return yield* source.container === 'charx' ? writeCharx(document, source.bytes) : writeCharx(document)
  },
  *png(source, now) {
    const document = yield* version3(source, now)
    const first: CardText = { keyword: 'ccv3', document: yield* writeJsonDocument(document) }
    const texts = [first, ...(yield* backfill(document))]
    return yield* writePngCards(source.container === 'png' ? source.bytes : plainPicture(), texts)
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

/** The V2 copy, which may be left out (V3, "PNG/APNG"): it is where it would be too large to be read. */
function* backfill(document: Fields): Steps<readonly CardText[]> {
  try {
    return [{ keyword: 'chara', document: yield* writeJsonDocument(yield* toBackfill(document)) }]
  } catch (error) {
    if (error instanceof CardError) return []
    throw error
  }
}
