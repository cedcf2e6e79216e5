import { basename, dirname, extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  compareNames,
  foldName,
  type ListedCharacter,
  type NameMatch,
  type Origin,
  type StoredVersion,
} from './character.ts'
import { type FolderFile, realPath, type UnreadableFile } from './watched-folder.ts'

/** The data to find and list a card of a folder. The card itself is in a cache, or is read again when it is needed. */
export interface PublicCard extends ListedCharacter {
  readonly origin: 'folder' | 'starter'
  readonly file: string
}

/** The folder of the characters that ship with the package. In the repository, it is by default the operator's folder too. */
export const starterFolder = realPath(fileURLToPath(new URL('../../../data/characters', import.meta.url)))

/** The characters that ship with the package, by file name without extension. Other files in the folder are the operator's. */
const starters: ReadonlySet<string> = new Set(['bolt', 'fern', 'tolliver', 'vesper'])

/** The origin of a file: a starter, or a card that the operator put into the folder. */
export function originOf(file: string): Exclude<Origin, 'account'> {
  const isStarter = dirname(file) === starterFolder && starters.has(basename(file, extname(file)))
  return isStarter ? 'starter' : 'folder'
}

/** The name of the file `other` in a message about `file`: without the folder if both are in the same folder. */
function seenFrom(file: string, other: string): string {
  return dirname(file) === dirname(other) ? basename(other) : other
}

/** The characters that all accounts may play, by name. A card of the operator's folder hides a starter of the same name. */
export class PublicCards {
  /** In the order of `compareNames`, without hidden cards. */
  readonly listed: readonly PublicCard[]
  /** Cards that only a pin (`name@sha256:…`) finds, because another card of the same origin has the same name. */
  readonly hidden: readonly UnreadableFile[]
  readonly #byName = new Map<string, PublicCard>()
  readonly #byFoldedName = new Map<string, PublicCard>()
  readonly #all: readonly PublicCard[]

  constructor(files: readonly FolderFile<PublicCard>[]) {
    const hidden: UnreadableFile[] = []
    const all = files.map(({ value }) => value)
    this.#all = [
      ...all.filter(({ origin }) => origin === 'folder'),
      ...all.filter(({ origin }) => origin === 'starter'),
    ]
    for (const card of this.#all) {
      const first = this.#byName.get(card.name)
      if (!first) this.#byName.set(card.name, card)
      else if (first.origin === card.origin) {
        hidden.push({
          file: card.file,
          reason: `It has the same name as ${seenFrom(card.file, first.file)}, which comes first.`,
        })
      }
      const folded = foldName(card.name)
      if (!this.#byFoldedName.has(folded)) this.#byFoldedName.set(folded, card)
    }
    this.hidden = hidden
    this.listed = [...this.#byName.values()].sort((a, b) => compareNames(a.name, b.name))
  }

  /** The card of a name. The name is a key of a map and never a part of a path. */
  find(name: string, match: NameMatch): PublicCard | undefined {
    return match === 'exact' ? this.#byName.get(name) : this.#byFoldedName.get(foldName(name))
  }

  /** The cards of this name whose digest begins with `digest`. */
  findVersions(name: string, match: NameMatch, digest: string): readonly PublicCard[] {
    const folded = foldName(name)
    const isNamed = (card: StoredVersion) => (match === 'exact' ? card.name === name : foldName(card.name) === folded)
    return this.#all.filter((card) => card.digest.startsWith(digest) && isNamed(card))
  }
}
