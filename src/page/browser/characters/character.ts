import { getJson } from '../base/api.ts'
import type { ListedCharacter, Origin } from '../base/character-list.ts'
import { characterPath } from '../base/character-path.ts'

/** What the service makes of a card, as far as only its readers are told. */
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

/** What the service tells of a card that is sent to it. */
export interface Summary extends Contents {
  readonly name: string
  readonly digest: string
  readonly greetings: number
}

/** What `GET /characters/{name}` tells. */
export interface Details extends ListedCharacter, Contents {
  readonly creator_notes: string
  readonly character_version: string
  readonly greetings: readonly { readonly index: number; readonly text: string }[]
  /** Missing where the card's texts are not for this key. */
  readonly card?: unknown
}

/** Whose a character is, in words. */
export const origins: Readonly<Record<Origin, string>> = {
  account: 'yours',
  folder: 'the operator’s',
  starter: 'starter',
}

/** Asks for what a character tells of itself. @throws Failure */
export function detailsOf(name: string, signal: AbortSignal): Promise<Details> {
  return getJson<Details>(characterPath(name), { signal })
}
