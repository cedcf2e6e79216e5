import { type Fields, field, isFields } from '../../fields.ts'
import { type Chunk, type Completion, countsOf } from '../../openai/completion.ts'
import { CallPieces } from './call-pieces.ts'
import { tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'

/** The most choices of one answer. */
const maxChoices = 1000

/** Fields of a message that make it an answer. */
const answering = ['content', 'refusal', 'tool_calls', 'function_call', 'images', 'audio']

/** A chunk as clients need it. */
export interface ReadChunk {
  readonly chunk: Chunk
  /** Whether something was added or replaced, so that the upstream's text is not the text of the chunk. */
  readonly isChanged: boolean
  /** Whether the chunk begins a choice. */
  readonly begins: boolean
}

/**
 * Reads the parsed JSON of one answer: its chunks, or its whole completion. Both have the same rules. JSON without `choices` that
 * is no error is no completion, and is left out: heartbeats, warnings. A missing role, index or id is added, because OpenAI's
 * clients need it. A `message` in the place of a `delta` is read as one.
 */
export class ChunkReader {
  readonly #secrets: readonly string[]
  readonly #choices = new Map<number, { isFinished: boolean; readonly calls: CallPieces }>()

  /** @param secrets texts that no error may repeat */
  constructor(secrets: readonly string[]) {
    this.#secrets = secrets
  }

  /** Whether at least `minCount` choices, and all that have begun, have their finish reason. */
  hasFinished(minCount: number): boolean {
    const choices = [...this.#choices.values()]
    const finished = choices.filter(({ isFinished }) => isFinished).length
    return finished >= minCount && finished === choices.length
  }

  /** Reads the JSON of an event; undefined if it is no completion. @throws ApiError for an error in it (`errorInside`) */
  chunk(value: unknown): ReadChunk | undefined {
    const listed = this.#choicesIn(value)
    if (!isFields(value)) return undefined
    // Some services send a usage chunk without `choices`.
    if (!listed) return countsOf(value['usage']) && { chunk: chunkOf(value, []), isChanged: true, begins: false }
    const begun = this.#choices.size
    const choices = listed.map((choice, place) => this.#choice(choice, place))
    const isChanged = choices.some((choice, place) => choice !== listed[place])
    return { chunk: chunkOf(value, isChanged ? choices : listed), isChanged, begins: this.#choices.size > begun }
  }

  /**
   * Reads the JSON of a whole answer.
   * @returns undefined if it is no completion, if a choice has no message, or if no choice has an answer or a finish reason
   * @throws ApiError for an error in it (`errorInside`)
   */
  completion(value: unknown): { readonly completion: Completion; readonly isChanged: boolean } | undefined {
    const listed = this.#choicesIn(value)
    if (!listed || !isFields(value)) return undefined
    const choices = listed.map(wholeChoice)
    if (!listed.every(hasMessage) || !choices.some(isAnswered)) return undefined
    const isChanged = choices.some((choice, place) => choice !== listed[place])
    return { completion: completionOf(value, isChanged ? choices : listed), isChanged }
  }

  /** The choices of a parsed answer; undefined if it has none. */
  #choicesIn(value: unknown): readonly Fields[] | undefined {
    const error = errorInside(value, this.#secrets)
    if (error) throw error
    const listed = field(value, 'choices')
    if (!Array.isArray(listed)) return undefined
    if (listed.length > maxChoices) throw tooLarge()
    return listed.every(isFields) ? listed : listed.filter(isFields)
  }

  #choice(choice: Fields, place: number): Fields {
    const index = isIndex(choice['index']) ? choice['index'] : place
    let state = this.#choices.get(index)
    const isNew = state === undefined
    if (!state) {
      if (this.#choices.size >= maxChoices) throw tooLarge()
      state = { isFinished: false, calls: new CallPieces() }
      this.#choices.set(index, state)
    }
    if (choice['finish_reason']) state.isFinished = true
    const { delta: sent } = choice
    const delta = isFields(sent) || !isFields(choice['message']) ? sent : choice['message']
    const said = withCalls(isNew ? withRole(delta) : delta, (calls) => state.calls.mend(calls))
    if (said === sent && index === choice['index']) return choice
    const { delta: _sent, message: _message, ...others } = choice
    return { ...others, index, ...(said === undefined ? {} : { delta: said }) }
  }
}

/** A choice of a whole answer. */
function wholeChoice(choice: Fields, place: number): Fields {
  const index = isIndex(choice['index']) ? choice['index'] : place
  const message = withCalls(withRole(choice['message']), (calls) => new CallPieces().complete(calls))
  return message === choice['message'] && index === choice['index'] ? choice : { ...choice, index, message }
}

function hasMessage({ message }: Fields): boolean {
  return isFields(message)
}

function withRole(said: unknown): unknown {
  if (!isFields(said)) return { role: 'assistant', content: null }
  return said['role'] ? said : { ...said, role: 'assistant' }
}

function withCalls(said: unknown, mend: (calls: readonly unknown[]) => readonly unknown[]): unknown {
  const calls = field(said, 'tool_calls')
  if (!isFields(said) || !Array.isArray(calls)) return said
  const mended = mend(calls)
  return mended === calls ? said : { ...said, tool_calls: mended }
}

function isIndex(index: unknown): index is number {
  return typeof index === 'number' && Number.isSafeInteger(index) && index >= 0
}

/** Whether a whole choice has a text, a call, a refusal, a picture or a finish reason. */
function isAnswered(choice: Fields): boolean {
  if (choice['finish_reason']) return true
  return answering.some((name) => {
    const value = field(choice['message'], name)
    return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value)
  })
}

/** The types of chunks and completions have more fields than this service needs. Upstreams may leave the others out. */
function chunkOf(value: Fields, choices: readonly unknown[]): Chunk {
  const chunk: unknown = choices === value['choices'] ? value : { ...value, choices }
  if (isChunk(chunk)) return chunk
  throw new Error('a chunk has a list of choices')
}

function completionOf(value: Fields, choices: readonly unknown[]): Completion {
  const completion: unknown = { ...value, choices }
  if (isCompletion(completion)) return completion
  throw new Error('each choice of a completion has a message')
}

function isChunk(value: unknown): value is Chunk {
  return Array.isArray(field(value, 'choices'))
}

function isCompletion(value: unknown): value is Completion {
  return isChunk(value) && value.choices.every((choice) => isFields(field(choice, 'message')))
}
