import { effect, signal } from '@preact/signals'
import { type ListedCharacter, listCharacters } from '../base/character-list.ts'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'

/** A character with the text that a search compares. */
export interface Found extends ListedCharacter {
  readonly searched: string
}

/** The characters that have been loaded so far. The service lists all characters that the key may talk to. */
export interface Library {
  /** In the order of the service's list. */
  readonly characters: readonly Found[]
  readonly isComplete: boolean
  readonly failure?: Failure
}

const nothing: Library = { characters: [], isComplete: false }

/** The loaded characters, for all views. */
export const library = signal(nothing)

/** The first page is short, so that the first characters are shown soon. */
const firstPageLength = 100

let loading: Promise<void> | undefined
/** Incremented when the loaded characters are dropped, so that a running load stops. */
let generation = 0

// The next key may see different characters.
effect(() => {
  if (identity.value === null) forget()
})

function forget(): void {
  generation += 1
  loading = undefined
  library.value = nothing
}

/** Loads all characters, page by page, unless they are loaded. A failure is shown in `library`. */
export function loadLibrary(): Promise<void> {
  loading ??= loadPages(generation)
  return loading
}

/** Loads all characters again, also after a failure. */
export function reloadLibrary(): Promise<void> {
  forget()
  return loadLibrary()
}

async function loadPages(begun: number): Promise<void> {
  try {
    for (let after = ''; ; ) {
      const { data, has_more: hasMore } = await listCharacters(after, after === '' ? firstPageLength : undefined)
      if (begun !== generation) return
      const characters = [...library.value.characters, ...data.map(searchable)]
      library.value = { characters, isComplete: !hasMore }
      if (!hasMore) return
      after = data.at(-1)?.name ?? ''
    }
  } catch (error) {
    if (begun !== generation) return
    loading = undefined
    library.value = { ...nothing, failure: Failure.of(error) }
  }
}

/**
 * Loads the list entry of a name again. The character may have been deleted or replaced, or the name may now mean a character of
 * another owner.
 */
export async function refresh(name: string): Promise<void> {
  await loadLibrary()
  const before = placeOf(name)
  const known = library.value.characters
  // The list is requested, and not the character: for a deleted character, its route would answer 404, but here this is not a
  // failure.
  const { data } = await listCharacters(known[before - 1]?.name ?? '', 1)
  const found = data.filter((each) => each.name === name).map(searchable)
  const { characters } = library.value
  const place = placeOf(name)
  const rest = characters[place]?.name === name ? place + 1 : place
  library.value = { ...library.value, characters: [...characters.slice(0, place), ...found, ...characters.slice(rest)] }
}

/** The character of this account with exactly this name. */
export function ownOf(name: string): ListedCharacter | undefined {
  const found = library.value.characters[placeOf(name)]
  return found?.name === name && found.origin === 'account' ? found : undefined
}

/** The character that is listed under this name. */
export function listedOf(name: string): ListedCharacter | undefined {
  const found = library.value.characters[placeOf(name)]
  return found?.name === name ? found : undefined
}

/** The index of a name in the list, or the index where it would be inserted. */
function placeOf(name: string): number {
  const { characters } = library.value
  let low = 0
  let high = characters.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(characters[middle]?.name ?? '', name)) low = middle + 1
    else high = middle
  }
  return low
}

const encoder = new TextEncoder()

/** Compares two names in the order of the service's lists: by their bytes in UTF-8. */
function isBefore(one: string, other: string): boolean {
  const left = encoder.encode(one)
  const right = encoder.encode(other)
  const different = left.findIndex((byte, index) => byte !== right[index])
  return different === -1 ? left.length < right.length : (left[different] ?? 0) < (right[different] ?? -1)
}

/** The search compares at most this many characters of each text. */
const maxSearched = 200

function searchable(listed: ListedCharacter): Found {
  const texts = [listed.name, listed.creator, ...listed.tags].map((text) => text.slice(0, maxSearched))
  return { ...listed, searched: texts.join('\n').toLowerCase() }
}
