import type { FastifyRequest } from 'fastify'
import type { Key } from '../access/access.ts'
import type { Guard } from '../access/guard.ts'
import type { Character } from '../characters/library/character.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import type { Lorebook } from '../characters/lore/lorebook.ts'
import type { PromptSettings } from '../characters/prompt/settings.ts'
import type { Clock } from '../clock.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { Visits } from '../usage/visit.ts'
import type { PromptMaking } from './exchange.ts'

/** Whether a name that is not known is played by its name alone, or refused. */
export type UnknownCharacters = 'open' | 'closed'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly visits: Visits
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
  /** Lorebooks for every character; none without it. */
  readonly worldBooks?: () => readonly Lorebook[]
  /** Whether a caller may read the texts of a character's card; all may without it. */
  readonly mayRead?: (caller: Key, character: Character) => boolean
  /** Refuses a large request that has waited for the database, when there is more to do than can be done now. */
  readonly lookAgain: (request: FastifyRequest) => void
  /** Bytes. */
  readonly bodyLimit: number
  readonly sseKeepaliveMs: number
  /** Tells how long a stream is silent. */
  readonly clock: Clock
  /** How long open replies may take when the service stops. Milliseconds. */
  readonly shutdownGraceMs: number
  /** The `/v1` alias is outside the contract, and so not in the OpenAPI document. */
  readonly isAlias?: boolean
}

/** What prompts are made with besides the request. */
export function promptMaking({ prompt, worldBooks }: ChatOptions): PromptMaking {
  return { settings: prompt, worldBooks: worldBooks?.() ?? [] }
}
