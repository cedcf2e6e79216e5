import { randomUUID } from 'node:crypto'
import { type Fields, field, fieldsIn, isFields, textIn } from '../../fields.ts'
import { type Chunk, type Completion, countsOf } from '../../openai/completion.ts'
import { errorInside, tooLarge } from './errors.ts'

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

/** The most tool calls in one answer. */
const maxCalls = 1000

/** A call that has begun. */
interface OpenCall {
  /** The index that clients get. */
  readonly index: number
  /** The name so far. */
  name: string
  hasArguments: boolean
}

/**
 * The tool calls of one choice. A call is known by its id, because some services send the same index with every call, or no
 * index. OpenAI's clients join the pieces of a call by the index, and need an id, a type and a text as arguments, so missing ones
 * are added. The pieces after the first have no id: some clients would append it to the id of the call.
 */
export class CallPieces {
  readonly #indexes = new Set<number>()
  readonly #byId = new Map<string, OpenCall>()
  /** The last call of each index that the upstream has sent. */
  readonly #byIndex = new Map<number, OpenCall>()
  /** The last call with an id or a name in a piece. Other pieces may pass unread, so they leave no trace here. */
  #last: OpenCall | undefined

  /** Returns the pieces as clients need them; the same list if nothing is missing. @throws ApiError 502 for too many calls */
  mend(pieces: readonly unknown[]): readonly unknown[] {
    const mended = pieces.filter(isFields).map((piece) => this.#mend(piece))
    return isSame(mended, pieces) ? pieces : mended
  }

  /** Does the same for the calls of a whole message: each is a call of its own, and needs no index. */
  complete(calls: readonly unknown[]): readonly unknown[] {
    const mended = calls
      .filter(isFields)
      .map((call) => withFields(call, { id: idIn(call) || newId(), ...typeOf(call) }))
    return isSame(mended, calls) ? calls : mended
  }

  #mend(piece: Fields): Fields {
    const id = idIn(piece)
    const index = indexIn(piece)
    const name = textIn(calledIn(piece), 'name')
    const known = this.#known(id, index, name)
    const call = known ?? this.#begin(index)
    if (!known || id !== '' || name !== '') this.#last = call
    if (id !== '') this.#byId.set(id, call)
    if (index !== undefined) this.#byIndex.set(index, call)
    call.hasArguments ||= Boolean(calledIn(piece)['arguments'] ?? calledIn(piece)['input'])
    const isRepeated = known !== undefined && name !== '' && name === call.name
    if (!isRepeated) call.name += name
    if (!known) return withFields(piece, { index: call.index, id: id || newId(), ...typeOf(piece) })
    return withFields(withoutHead(piece, isRepeated), { index: call.index })
  }

  /** The call of a piece; undefined if the piece begins a call. */
  #known(id: string, index: number | undefined, name: string): OpenCall | undefined {
    const ofId = this.#byId.get(id)
    if (ofId) return ofId
    if (index === undefined) return id === '' && name === '' ? this.#last : undefined
    const ofIndex = this.#byIndex.get(index)
    // Some services send another id with every piece, but then only the first has the name.
    if (id !== '') return name === '' ? ofIndex : undefined
    const isAnother = ofIndex?.hasArguments && name !== '' && name !== ofIndex.name
    return isAnother ? undefined : ofIndex
  }

  #begin(sent: number | undefined): OpenCall {
    if (this.#indexes.size >= maxCalls) throw tooLarge()
    const isFree = sent !== undefined && !this.#indexes.has(sent)
    const index = isFree ? sent : Math.max(-1, ...this.#indexes) + 1
    this.#indexes.add(index)
    return { index, name: '', hasArguments: false }
  }
}

function idIn({ id }: Fields): string {
  return typeof id === 'number' ? String(id) : typeof id === 'string' ? id : ''
}

function newId(): string {
  return `call_${randomUUID().replaceAll('-', '')}`
}

function indexIn({ index }: Fields): number | undefined {
  return typeof index === 'number' && Number.isSafeInteger(index) && index >= 0 ? index : undefined
}

/** The name of the field with what is called: a function, or a custom tool. */
function kindOf(call: Fields): 'function' | 'custom' {
  return isFields(call['custom']) ? 'custom' : 'function'
}

function calledIn(call: Fields): Fields {
  return fieldsIn(call, kindOf(call))
}

function typeOf(call: Fields): { readonly type?: 'function' | 'custom' } {
  return !call['type'] && isFields(call[kindOf(call)]) ? { type: kindOf(call) } : {}
}

/** A piece without its id, and without a repeated name. */
function withoutHead(piece: Fields, isNameRepeated: boolean): Fields {
  if (idIn(piece) === '' && !isNameRepeated) return piece
  const { id: _id, type: _type, ...rest } = piece
  if (!isNameRepeated) return rest
  const { name: _name, ...called } = calledIn(piece)
  return { ...rest, [kindOf(piece)]: called }
}

/** The call with these fields, and with arguments that are a text; the same call if it has them. */
function withFields(call: Fields, fields: Fields): Fields {
  const { arguments: sent } = fieldsIn(call, 'function')
  const isText = sent == null || typeof sent === 'string'
  if (isText && Object.entries(fields).every(([name, value]) => call[name] === value)) return call
  // Some services send the arguments as an object.
  const called = isText ? {} : { function: { ...fieldsIn(call, 'function'), arguments: JSON.stringify(sent) } }
  return { ...call, ...fields, ...called }
}

function isSame(mended: readonly unknown[], sent: readonly unknown[]): boolean {
  return mended.length === sent.length && mended.every((piece, place) => piece === sent[place])
}
