import { CardError } from '../documents/card-error.ts'
import { maxDocumentBytes, readJsonDocument } from '../documents/json-document.ts'
import type { FoundCard } from './png.ts'
import { listZip, maxEntries, maxNameBytes, unzip, type ZipEntry } from './zip.ts'
import { writeZip, type ZipFile, zipFile } from './zip-writer.ts'

/** The exact name of the card in a CHARX archive, at the root (Character Card V3, "CHARX"). */
const cardName = 'card.json'

/**
 * Reads the card of a CHARX archive. No other file of the archive is unpacked.
 * @throws CardError
 */
export function readCharx(bytes: Buffer): FoundCard {
  const entries = listZip(bytes)
  const cards = entries.filter(isCard)
  const [card] = cards
  if (card === undefined) {
    if (entries.some(isOfVoxta)) {
      throw new CardError(
        'card_unsupported',
        'This is a Voxta package, and not a CHARX archive. Export the character from Voxta as Character Card V2 or V3.',
      )
    }
    throw new CardError('card_invalid', 'The archive has no card.json at its root. Send the original CHARX file.')
  }
  if (cards.length > 1) {
    throw new CardError('card_invalid', 'The archive has more than one card.json. Keep one of them.')
  }
  const json = unzip(card, maxDocumentBytes)
  return { document: readJsonDocument(json), json, warnings: [] }
}

/** Writes a CHARX archive: the card and other files. @throws CardError if it would have more files than the service reads */
export function writeCharx(document: Buffer, files: readonly ZipFile[]): Buffer {
  if (files.length >= maxEntries) {
    throw new CardError(
      'card_too_large',
      `The archive would have more than ${maxEntries} files. Choose another format.`,
    )
  }
  return writeZip([zipFile(cardName, document), ...files])
}

/** The number of files in an archive besides the card. */
export function countAssets(archive: Buffer): number {
  return listZip(archive).filter((entry) => entry.name !== cardName && !entry.name.endsWith('/')).length
}

/** Whether a file is the description of a character in a Voxta package: at the root or in a folder. */
function isOfVoxta({ name }: ZipEntry): boolean {
  if (name.length > maxNameBytes) return false
  return name === 'character.json' || /^Characters\/[^/]+\/character\.json$/i.test(name)
}

/** Whether a file is the card. A symbolic link with the card's name is not the card, because its target is not in the archive. */
function isCard(entry: ZipEntry): boolean {
  return entry.name === cardName && !entry.isSymbolicLink
}
