import type { FastifyRequest } from 'fastify'
import type { Guard } from '../access/guard.ts'
import type { CharacterLibrary } from '../characters/library/library.ts'
import type { PromptSettings } from '../characters/prompt/composition.ts'
import type { Clock } from '../clock.ts'
import type { HeldBytes } from '../http/bytes-in-flight.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { ModelRegistry } from '../models/registry.ts'
import type { Metering } from '../usage/metered-request.ts'
import type { Work } from '../work/work.ts'

/** Whether a character without a card is played by its name alone (`open`), or refused (`closed`). */
export type UnknownCharacters = 'open' | 'closed'

/** The parts that the chat routes are built from. */
export interface ChatOptions {
  readonly guard: Guard
  readonly models: ModelRegistry
  readonly library: CharacterLibrary
  readonly metering: Metering
  /** Limits receipts of prompts; `metering` limits completions. */
  readonly limiter: Pick<Limiter, 'reserve'>
  readonly prompt: PromptSettings
  readonly characters: UnknownCharacters
  /** Whether a card may choose the model of its character. */
  readonly characterModels: 'on' | 'off'
  /**
   * Load shedding: throws a 503 for a large request if the process is overloaded. Call this function after waiting for the
   * database, before the work of the request begins.
   */
  readonly shedLoad: (request: FastifyRequest) => void
  /** Makes the work of a request. The work ends when the signal aborts. */
  readonly workOf: (request: FastifyRequest, signal: AbortSignal) => Work
  /** For one request, starts to count the bytes of an upstream's answer that are in memory. */
  readonly openHeld: (request: FastifyRequest) => HeldBytes
  /** The maximum size of a request body, in bytes. */
  readonly bodyLimit: number
  readonly sseKeepaliveMs: number
  /** The clock for the keep-alives of streams. */
  readonly clock: Clock
  /** Milliseconds that open replies may take when the service stops. */
  readonly shutdownGraceMs: number
  /** True for the `/v1` alias, which is not in the OpenAPI document. */
  readonly isAlias?: boolean
}
