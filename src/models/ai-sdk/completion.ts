import { randomUUID } from 'node:crypto'
import type { Chunk, Completion } from '../../openai/completion.ts'
import { unixSeconds } from '../../time.ts'
import type { ModelEvent, ModelRequest } from '../model.ts'
import { toChoice } from './choice.ts'
import { ChoiceStream, type TranslatedDelta } from './choice-stream.ts'
import type { CallOptions, GenerateResult, StreamPart } from './language-model.ts'
import { warnedParameters } from './parameters.ts'
import { sumOf, toUsage } from './usage.ts'

/**
 * Joins the answers to the calls of one request, one call for each choice. Reports the parameters that the provider ignored to
 * the request.
 * @param model the model's name, for a provider that sends no name
 */
export function toCompletion(
  request: ModelRequest,
  calls: readonly CallOptions[],
  results: readonly GenerateResult[],
  model: string,
): Completion {
  reportIgnored(request, results)
  const usage = sumOf(results.map((result) => toUsage(result.usage)))
  const wantsJson = calls[0]?.responseFormat?.type === 'json'
  return {
    ...envelope('chat.completion', results[0]?.response?.modelId ?? model),
    choices: results.map((result, index) => toChoice(result, index, wantsJson)),
    ...(usage === undefined ? {} : { usage }),
  }
}

/** A part of the streamed answer for one choice. */
export interface AnswerPart {
  readonly index: number
  /** Undefined at the end of the answer. */
  readonly part: StreamPart | undefined
}

/** Joins the streamed answers to the calls of one request. */
export class CompletionStream {
  readonly #request: ModelRequest
  readonly #model: string
  readonly #choices: readonly ChoiceStream[]
  #modelId: string | undefined
  #head: Envelope<'chat.completion.chunk'> | undefined

  /** @param model the model's name, for a provider that sends no name */
  constructor(request: ModelRequest, model: string) {
    this.#request = request
    this.#model = model
    this.#choices = Array.from({ length: request.body.n ?? 1 }, (_, index) => new ChoiceStream(index))
  }

  /** Whether `nextOf` has returned an event. */
  get hasBegun(): boolean {
    return this.#head !== undefined
  }

  /** Returns the events for some parts. If a part fails, returns the events before it, and the failure. */
  nextOf(parts: readonly AnswerPart[]): {
    readonly events: readonly ModelEvent[]
    readonly failure?: { readonly error: unknown }
  } {
    const events: ModelEvent[] = []
    try {
      for (const { index, part } of parts) for (const event of this.#next(index, part)) events.push(event)
    } catch (error) {
      return { events, failure: { error } }
    }
    return { events }
  }

  /**
   * The events for a part of a choice's answer, or for the end of the answer. Reports the parameters that the provider ignores to
   * the request.
   * @param part undefined for the end of the answer
   * @throws the error that the provider reports; ApiError 502 for an answer that ends too early
   */
  #next(index: number, part: StreamPart | undefined): readonly ModelEvent[] {
    if (part?.type === 'error') throw part.error
    if (part?.type === 'stream-start') reportIgnored(this.#request, [part])
    if (part?.type === 'response-metadata') this.#modelId ??= part.modelId
    const choice = this.#choices[index]
    const pieces = (part === undefined ? choice?.end() : choice?.next(part)) ?? []
    return pieces.map((piece) => this.#event([piece]))
  }

  /** The last event, with the tokens of all choices; undefined if the tokens of a choice are not known. */
  usage(): ModelEvent | undefined {
    const usage = sumOf(this.#choices.map((choice) => choice.usage))
    return usage && this.#event([], { usage })
  }

  #event(pieces: readonly TranslatedDelta[], rest: Pick<Chunk, 'usage'> = {}): ModelEvent {
    this.#head ??= envelope('chat.completion.chunk', this.#modelId ?? this.#model)
    return { chunk: { ...this.#head, choices: [...pieces], ...rest } }
  }
}

interface Envelope<T extends string> {
  readonly id: string
  readonly object: T
  readonly created: number
  readonly model: string
}

function envelope<const T extends string>(object: T, model: string): Envelope<T> {
  return { id: `chatcmpl-${randomUUID()}`, object, created: unixSeconds(), model }
}

function reportIgnored(request: ModelRequest, results: readonly Pick<GenerateResult, 'warnings'>[]): void {
  const ignored = new Set(results.flatMap(({ warnings }) => warnedParameters(warnings, request.body)))
  for (const parameter of ignored) request.onIgnored?.(parameter)
}
