import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, relative, resolve } from 'node:path'
import { type Card, CardError, readCard } from './card.ts'

/** A character that can be played: its card and the digest of the card's bytes. */
export interface Character {
  readonly name: string
  readonly card: Card
  /** SHA-256 of the source bytes, 64 hex digits. */
  readonly digest: string
}

/** A file of a character folder that holds no card. */
export interface UnreadableCard {
  readonly file: string
  readonly reason: string
}

/** The characters that everybody may talk to: those of the operator's folder, and the starters. */
export class CharacterLibrary {
  readonly #byName = new Map<string, Character>()
  readonly #byLowerName = new Map<string, Character>()
  readonly unreadable: readonly UnreadableCard[]

  /** Reads the cards of these folders; where two have one name, the later folder wins. Missing folders are empty. */
  constructor(folders: readonly string[]) {
    const unreadable: UnreadableCard[] = []
    for (const folder of new Set(folders.map((path) => resolve(path)))) {
      for (const file of cardFiles(folder)) {
        try {
          const source = readFileSync(file)
          const card = readCard(source.toString('utf8'))
          const digest = createHash('sha256').update(source).digest('hex')
          this.#add({ name: card.name, card, digest })
        } catch (error) {
          unreadable.push({ file: relative('.', file), reason: reasonOf(error) })
        }
      }
    }
    this.unreadable = unreadable
  }

  /** The character of this name: exactly so, else whatever its letters' case. A name is never part of a path. */
  find(name: string): Character | undefined {
    return this.#byName.get(name) ?? this.#byLowerName.get(name.toLowerCase())
  }

  #add(character: Character): void {
    this.#byName.set(character.name, character)
    this.#byLowerName.set(character.name.toLowerCase(), character)
  }
}

/** Why a file is not read. The system's refusals (no permission, a folder, a broken link) are no reason not to start. */
function reasonOf(error: unknown): string {
  if (error instanceof CardError) return error.message
  if (error instanceof Error && 'code' in error) return `it cannot be read (${error.code})`
  throw error
}

function cardFiles(folder: string): readonly string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return []
  return readdirSync(folder)
    .filter((file) => extname(file).toLowerCase() === '.json')
    .sort()
    .map((file) => join(folder, file))
}
