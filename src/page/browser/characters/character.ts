import { getJson } from '../base/api.ts'
import { characterPath, type ListedCharacter, type Origin } from '../base/characters.ts'

/** The findings of a card. The service shows them only to keys that may read the card. */
export interface Findings {
  readonly refused_regexes?: readonly string[]
  readonly ignored?: readonly string[]
  readonly never_fire?: readonly string[]
  readonly warnings?: readonly string[]
}

interface Contents extends Findings {
  readonly spec: string
  readonly lore_entries: number
  readonly regexes: number
  readonly remote_assets: number
  readonly has_system_prompt: boolean
  readonly model: string | null
}

/** The service's summary of an uploaded card, or of a card that was only checked. */
export interface Summary extends Contents {
  readonly name: string
  readonly digest: string
  readonly greetings: number
}

/** The reply of `GET /characters/{name}`. */
export interface Details extends ListedCharacter, Contents {
  readonly creator_notes: string
  readonly character_version: string
  readonly greetings: readonly { readonly index: number; readonly text: string }[]
  /** Missing if this key may not read the card. */
  readonly card?: unknown
}

/** The words for the origin of a character. */
export const origins: Readonly<Record<Origin, string>> = {
  account: 'yours',
  folder: 'the operator’s',
  starter: 'starter',
}

/** Loads the details of a character. @throws Failure */
export function detailsOf(name: string, signal: AbortSignal): Promise<Details> {
  return getJson<Details>(characterPath(name), { signal })
}
