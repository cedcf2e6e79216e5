import { getJson } from './api.ts'
import { Failure } from './failure.ts'
import { identity, ofAccount } from './session.ts'

export type Origin = 'account' | 'folder' | 'starter'

/** A character as `GET /characters` lists it. */
export interface ListedCharacter {
  readonly name: string
  readonly origin: Origin
  readonly digest: string
  readonly tags: readonly string[]
  readonly creator: string
  readonly has_avatar?: boolean
  /** Unix seconds; only uploads have `created` and `updated`. */
  readonly created?: number
  readonly updated?: number
}

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
export const library = ofAccount(nothing)

/** The first page is short, so that the first characters are shown soon. */
const firstPageLength = 100
const maxPageLength = 1000

let loading: Promise<void> | undefined

identity.subscribe((who) => {
  if (who === null) loading = undefined
})

/**
 * The path of a character in the service. A browser would treat the names `.` and `..` as folders, even if they are encoded. So
 * these names get a space at the end. The service removes this space.
 */
export function characterPath(name: string): string {
  return `characters/${encodeURIComponent(/^\.\.?$/.test(name) ? `${name} ` : name)}`
}

/** Loads all characters, page by page, unless they are loaded. A failure is shown in `library`. */
export function loadLibrary(): Promise<void> {
  loading ??= loadPages()
  return loading
}

/** Loads all characters again, also after a failure. A complete list stays until the new list is complete. */
export function reloadLibrary(): Promise<void> {
  const { isComplete, failure } = library.value
  if (isComplete || failure) loading = undefined
  return loadLibrary()
}

async function loadPages(): Promise<void> {
  const { characters: before, isComplete } = library.value
  const whose = identity.value?.account
  const note = (next: Library) => {
    if (identity.value?.account === whose) library.value = next
  }
  note({ characters: isComplete ? before : [], isComplete })
  try {
    let characters: readonly Found[] = []
    for (let hasMore = true; hasMore; ) {
      const page = await list(characters.at(-1)?.name, characters.length === 0 ? firstPageLength : maxPageLength)
      characters = [...characters, ...page.data.map(searchable)]
      hasMore = page.has_more && page.data.length > 0
      if (!isComplete || !hasMore) note({ characters, isComplete: !hasMore })
    }
  } catch (error) {
    loading = undefined
    note({ ...library.value, failure: Failure.of(error) })
  }
}

interface CharacterPage {
  readonly data: readonly ListedCharacter[]
  readonly has_more: boolean
}

/** Lists the characters after a name, in the order of the service. @throws Failure */
function list(after = '', limit: number): Promise<CharacterPage> {
  const cursor = after === '' ? '' : `&after=${encodeURIComponent(after)}`
  return getJson<CharacterPage>(`characters?limit=${limit}${cursor}`)
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
  const { data } = await list(known[before - 1]?.name, 1)
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

/** The characters that have every word of the search in their names, tags or creators. */
export function matching(characters: readonly Found[], search: string): readonly Found[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return characters
  return characters.filter(({ searched }) => words.every((word) => searched.includes(word)))
}
