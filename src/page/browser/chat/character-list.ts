import { batch, effect, signal } from '@preact/signals'
import { type ListedCharacter, listCharacters } from '../base/character-list.ts'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'

/** A character with the text that a search compares. */
export interface SearchableCharacter extends ListedCharacter {
  readonly searched: string
}

/** The characters that have been loaded so far. The service lists all characters that the reader may talk to. */
export const characters = signal<readonly SearchableCharacter[]>([])
/** Whether more characters are being loaded. */
export const isLoading = signal(false)
/** The failure of the last load. */
export const listFailure = signal<Failure | undefined>(undefined)

// The next account in this tab may see different characters.
effect(() => {
  if (identity.value === null) characters.value = []
})

/** Loads the list. The first time, each page is shown immediately. A later load replaces the whole list at its end. */
export async function loadCharacters(): Promise<void> {
  if (isLoading.value) return
  const isFirst = characters.value.length === 0
  batch(() => {
    isLoading.value = true
    listFailure.value = undefined
  })
  const all: SearchableCharacter[] = []
  try {
    let hasMore = true
    while (hasMore) {
      const page = await listCharacters(all.at(-1)?.name)
      for (const listed of page.data) all.push({ ...listed, searched: searchedOf(listed) })
      hasMore = page.has_more && page.data.length > 0
      if (isFirst) characters.value = [...all]
    }
    characters.value = all
  } catch (error) {
    listFailure.value = Failure.of(error)
  } finally {
    isLoading.value = false
  }
}

/** The characters with every word of the search in their names and tags. */
export function found(all: readonly SearchableCharacter[], search: string): readonly SearchableCharacter[] {
  const words = search.toLocaleLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return all
  return all.filter(({ searched }) => words.every((word) => searched.includes(word)))
}

function searchedOf({ name, tags }: Pick<ListedCharacter, 'name' | 'tags'>): string {
  return [name, ...tags].join('\n').toLocaleLowerCase()
}
