import { randomUUID } from 'node:crypto'
import { type Fields, fieldsIn, isFields, textIn } from '../../fields.ts'
import { tooLarge } from './errors.ts'

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
