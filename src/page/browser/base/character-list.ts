import { getJson } from './api.ts'

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

/** A page of the list. */
export interface CharacterPage {
  readonly data: readonly ListedCharacter[]
  readonly has_more: boolean
}

const maxPageLength = 1000

/** Lists the characters after a name, in the order of the service. @throws Failure */
export function listCharacters(after = '', limit = maxPageLength): Promise<CharacterPage> {
  const cursor = after === '' ? '' : `&after=${encodeURIComponent(after)}`
  return getJson<CharacterPage>(`characters?limit=${limit}${cursor}`)
}
