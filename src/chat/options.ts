import type { FastifyRequest } from 'fastify'
import type { Guard } from '../access/guard.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import type { PromptSettings } from '../characters/prompt/settings.ts'
import type { Clock } from '../clock.ts'
import type { HeldBytes } from '../http/bytes-in-flight.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { Metering } from '../usage/metered-request.ts'
import type { Work } from '../work.ts'

/** Whether a name that is not known is played by its name alone, or refused. */
export type UnknownCharacters = 'open' | 'closed'

/** What the chat group is built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly metering: Metering
  /** Holds receipts of prompts to their limits; metering does it for completions. */
  readonly limiter: Pick<Limiter, 'reserve'>
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
  /** Whether a card may say on which model its character is played. */
  readonly characterModels: 'on' | 'off'
  /** Refuses a large request that has waited for the database, when there is more to do than can be done now. */
  readonly shedLoad: (request: FastifyRequest) => void
  /** The work of a request, wanted until the signal aborts. */
  readonly workOf: (request: FastifyRequest, signal: AbortSignal) => Work
  /** Opens a count of bytes that an upstream's answer to a request holds. */
  readonly openHeld: (request: FastifyRequest) => HeldBytes
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
