import { randomUUID } from 'node:crypto'
import type { Chunk, Completion } from '../../openai/completion.ts'
import { unixSeconds } from '../../time.ts'
import type { ChunkEvent, ModelEvent, ModelRequest } from '../model.ts'
import { ChunkReader } from '../upstream/chunk-reader.ts'
import { invalidAnswer } from '../upstream/errors.ts'
import { joinChunks } from '../upstream/join-chunks.ts'
import type { CallNames } from './call-names.ts'
import type { ChoiceCalls } from './choice-calls.ts'
import { ChoiceStream, type TranslatedDelta } from './choice-stream.ts'
import type { Content, GenerateResult, StreamPart } from './language-model.ts'
import { warnedParameters } from './parameters.ts'
import { sumOf } from './usage.ts'

/**
 * Joins the answers to the calls of one request, one call for each choice. Reports the parameters that the provider ignored to
 * the request.
 * @param model the model's name, for a provider that sends no name
 * @throws ApiError 502 for an answer that failed or was cut off
 */
export function toCompletion(
  request: ModelRequest,
  { calls, names }: ChoiceCalls,
  results: readonly GenerateResult[],
  model: string,
): Completion {
  const stream = new CompletionStream(request, model, names)
  const wantsJson = calls[0]?.responseFormat?.type === 'json'
  const events = results.flatMap((result, index) =>
    partsOf(result, wantsJson).flatMap((part) => stream.next(index, part)),
  )
  const usage = stream.usage()
  const read = new ChunkReader([]).completion(
    joinChunks([...events, ...(usage ? [usage] : [])].map(({ chunk }) => chunk)),
  )
  if (!read) throw invalidAnswer()
  const choices = read.completion.choices.map(({ message, ...choice }) => ({
    ...choice,
    message: { ...message, content: message.content ?? (message.tool_calls ? null : '') },
  }))
  return { ...read.completion, choices }
}

/** A whole answer as the parts of a stream. @param wantsJson whether the provider may say which text is the JSON */
function partsOf(
  { content, finishReason, usage, warnings, response, structuredOutputText: json }: GenerateResult,
  wantsJson: boolean,
): readonly (StreamPart | undefined)[] {
  const said = wantsJson && json !== undefined ? content.filter(({ type }) => type !== 'text') : content
  const jsonPart: StreamPart[] = said === content ? [] : [{ type: 'text-delta', id: 'json', delta: json ?? '' }]
  const { modelId } = response ?? {}
  return [
    { type: 'stream-start', warnings: [...warnings] },
    { type: 'response-metadata', ...(modelId === undefined ? {} : { modelId }) },
    ...said.flatMap(partOf),
    ...jsonPart,
    { type: 'finish', finishReason, usage },
    undefined,
  ]
}

function partOf(part: Content, index: number): readonly StreamPart[] {
  if (part.type !== 'text' && part.type !== 'reasoning') return [part]
  const { type, text: delta, providerMetadata } = part
  return [{ type: `${type}-delta`, id: String(index), delta, ...(providerMetadata && { providerMetadata }) }]
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
  constructor(request: ModelRequest, model: string, names: CallNames) {
    this.#request = request
    this.#model = model
    this.#choices = Array.from({ length: request.body.n ?? 1 }, (_, index) => new ChoiceStream(index, names))
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
      for (const { index, part } of parts) for (const event of this.next(index, part)) events.push(event)
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
  next(index: number, part: StreamPart | undefined): readonly ChunkEvent[] {
    if (part?.type === 'error') throw part.error
    if (part?.type === 'stream-start') {
      for (const parameter of warnedParameters(part.warnings, this.#request.body)) this.#request.onIgnored?.(parameter)
    }
    if (part?.type === 'response-metadata') this.#modelId ??= part.modelId
    const choice = this.#choices[index]
    const pieces = (part === undefined ? choice?.end() : choice?.next(part)) ?? []
    return pieces.map((piece) => this.#event([piece]))
  }

  /** The last event, with the tokens of all choices; undefined if the tokens of a choice are not known. */
  usage(): ChunkEvent | undefined {
    const usage = sumOf(this.#choices.map((choice) => choice.usage))
    return usage && this.#event([], { usage })
  }

  #event(pieces: readonly TranslatedDelta[], rest: Pick<Chunk, 'usage'> = {}): ChunkEvent {
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
