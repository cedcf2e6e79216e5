import type { JSONObject } from '@ai-sdk/provider'
import type { Fields } from '../../fields.ts'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import type { CallOptions } from './language-model.ts'

/** What a provider takes as a name or an id. */
export interface NameRule {
  /** A name that the provider takes. */
  readonly taken: RegExp
  /** Each character that a name must not have. */
  readonly refused: RegExp
  readonly maxLength: number
}

/** Called with each parameter of the request that a rule leaves out or changes. */
export type Ignore = (parameter: string) => void

/** Reads the events of one answer, and gives those that the provider's package understands. */
export interface AnswerEvents {
  /** The events for the JSON of an event, or of a whole answer. */
  next(value: unknown): readonly Fields[]
  /** The events at the end of the answer. */
  end(): readonly Fields[]
}

/** The rules of one provider: the differences of its API and its package from the AI SDK's common interface. */
export interface ProviderRules {
  /** The provider's address. The package reads environment variables, and this value keeps them from replacing the address. */
  readonly baseUrl?: string
  /** Parameters that `options` translates to the provider's own options. */
  readonly takes: readonly string[]
  /** Parameters that the provider's API does not have. */
  readonly lacks: readonly string[]
  /** Names of tools; undefined if any name is taken. */
  readonly toolName?: NameRule
  /** Ids of tool calls, which must be unique then; undefined if any id is taken. */
  readonly callId?: NameRule
  /** The name under which the package reads its signatures; undefined if it gets those of any provider. */
  readonly signer?: string
  /** Whether an assistant's message may have pictures. */
  readonly takesOwnPictures?: boolean
  /** The rules for answers; undefined if the package gets answers as they are. */
  readonly answers?: {
    open(): AnswerEvents
    /** The whole answer that events make. */
    join(events: readonly Fields[]): Fields
  }
  /** The provider's own options for a request, by the name under which the package reads them. */
  options(body: CompletionRequest, ignore: Ignore): Readonly<Record<string, JSONObject>>
  /** Whether the answer will have thinking, so that the last turn of the prompt needs its signed thinking. */
  thinks?(options: Pick<CallOptions, 'reasoning' | 'providerOptions'>): boolean
  /** Changes call options for this provider. @param modelId the model's id at the upstream */
  adjust?(options: CallOptions, modelId: string, ignore: Ignore): Promise<CallOptions>
}

/** The rules for a provider that is not known. */
export const plainRules: ProviderRules = { takes: [], lacks: [], options: () => ({}) }
