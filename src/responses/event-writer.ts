import { eventOf } from '../chat/reply-format.ts'
import type { Fields } from '../fields.ts'
import type { Call, OutputItem, OutputMessage, Reasoning } from '../openai/response.ts'
import { GrowingText } from '../text.ts'
import { type MessageParts, maxResponseLength, readMessageParts, tooLongAnswer } from './message-parts.ts'
import { cutReason, emptyCall, emptyMessage, emptyReasoning, setArguments, textPart } from './output.ts'
import { sameFields } from './response-of.ts'
import { sealed } from './signatures.ts'

/** A part of an item whose text still grows. */
interface OpenText {
  readonly kind: TextKind
  readonly item: OutputMessage | Reasoning
  /** The indexes of the item in the output, and of the part in the item. */
  readonly at: { readonly item_id: string; readonly output_index: number; readonly content_index: number }
  readonly text: GrowingText
}

/** A tool call whose arguments still grow, and its index in the output. */
interface OpenCall {
  readonly item: Call
  readonly index: number
  readonly text: GrowingText
}

type TextKind = 'output_text' | 'refusal' | 'reasoning_text'

/**
 * Writes the items of a response as events while the model's chunks come (OpenAI's API reference, "Streaming events"). The
 * events of an item are: added, deltas, done.
 */
export class EventWriter {
  /** The items so far, in the order in which they began. */
  readonly output: OutputItem[] = []
  #sequence = 0
  #open: OpenText | undefined
  /**
   * The calls, by their index in the chunks. The pieces of several calls may come in any order, so all calls end at the same
   * time.
   */
  readonly #calls = new Map<number, OpenCall>()
  /** The reasoning items that have their text. They end last, because their signatures come last. */
  readonly #reasoned: { readonly item: Reasoning; readonly index: number }[] = []
  #extra: Fields | undefined
  readonly #callExtras = new Map<string, Fields>()
  /** The number of characters of all texts, arguments, ids and names so far. */
  #length = 0

  /** One event with its sequence number. */
  event(type: string, rest: object): string {
    return eventOf(JSON.stringify({ type, sequence_number: this.#sequence++, ...rest }), type)
  }

  /**
   * One event with a response.
   * @param own the fields of the response that do not come from its request
   * @param echo the JSON of the fields that come from its request
   */
  responseEvent(type: string, own: object, echo: string): string {
    const json = JSON.stringify({ type, sequence_number: this.#sequence++, response: own })
    const end = JSON.stringify(sameFields).slice('{'.length)
    return `event: ${type}\ndata: ${json.slice(0, -'}}'.length)},${echo.slice(1, -1)},${end}}\n\n`
  }

  /** The events that a delta of the model's message causes. @throws ApiError 502 beyond `maxResponseLength` characters */
  add(delta: unknown): string {
    const { thought, text, refusal, calls, extra } = readMessageParts(delta)
    this.#extra = extra ?? this.#extra
    this.#length += thought.length + text.length + refusal.length
    for (const call of calls) {
      // Some upstreams repeat the id and the name in each delta of a call.
      const isNew = !this.#calls.has(call.index)
      this.#length += call.text.length + (isNew ? call.id.length + call.name.length : 0)
    }
    if (this.#length > maxResponseLength) throw tooLongAnswer()
    let events = this.#addText('reasoning_text', thought)
    events += this.#addText('output_text', text)
    events += this.#addText('refusal', refusal)
    for (const call of calls) events += this.#addCall(call)
    return events
  }

  /** Ends all open items. @param reason the finish reason of the model's choice */
  end(reason: string | null | undefined): string {
    const status = cutReason(reason) ? 'incomplete' : 'completed'
    // Clients treat a response without items as a missing response. So such a response gets an empty text.
    let events = this.output.length === 0 ? this.#beginText('output_text') : ''
    if (this.#open?.kind === 'reasoning_text') events += this.#endItem(status)
    events += this.#endReasoning()
    events += this.#endItem(status)
    this.#closeCalls()
    for (const { item, index } of this.#calls.values()) {
      const at = { item_id: item.id, output_index: index }
      const said =
        item.type === 'custom_tool_call' ? { input: item.input } : { name: item.name, arguments: item.arguments }
      events += this.event(`${argumentEventOf(item)}.done`, { ...at, ...said })
      events += this.#itemDone(index, { ...item, status })
    }
    this.#calls.clear()
    return events
  }

  /** Closes the open items without events, and returns all items with the text so far, for a response that failed. */
  get cutOutput(): readonly OutputItem[] {
    this.#closeText()
    this.#closeCalls()
    return this.output.map((item) => (item.status === 'in_progress' ? { ...item, status: 'incomplete' } : item))
  }

  #addText(kind: TextKind, text: string): string {
    if (text === '') return ''
    const events = this.#open?.kind === kind ? '' : this.#beginText(kind)
    const open = this.#open
    if (!open) return events
    open.text.add(text)
    const more = kind === 'output_text' ? { logprobs: [] } : {}
    return events + this.event(`response.${kind}.delta`, { ...open.at, delta: text, ...more })
  }

  /** Begins a part. A text or a refusal goes into the open message, if there is one. Otherwise the part begins a new item. */
  #beginText(kind: TextKind): string {
    const last = this.#open
    const staysIn = last && kind !== 'reasoning_text' && last.kind !== 'reasoning_text'
    let events = staysIn ? this.#endText() : this.#endItem('completed')
    const item = staysIn ? last.item : kind === 'reasoning_text' ? emptyReasoning() : emptyMessage()
    const index = staysIn ? last.at.output_index : this.output.length
    if (!staysIn) events += this.#itemAdded(item)
    this.#open = {
      kind,
      item,
      at: { item_id: item.id, output_index: index, content_index: item.content.length },
      text: new GrowingText(),
    }
    return events + this.event('response.content_part.added', { ...this.#open.at, part: partOf(kind, '') })
  }

  /** Ends the open part and puts it into its item. */
  #endText(): string {
    const closed = this.#closeText()
    if (!closed) return ''
    const { kind, at, text, part } = closed
    const said = kind === 'refusal' ? { refusal: text } : { text, ...(kind === 'output_text' ? { logprobs: [] } : {}) }
    const done = this.event(`response.${kind}.done`, { ...at, ...said })
    return done + this.event('response.content_part.done', { ...at, part })
  }

  /** Puts the open part into its item, without an event; undefined if no part is open. */
  #closeText(): (Omit<OpenText, 'text'> & { readonly text: string; readonly part: object }) | undefined {
    const open = this.#open
    if (!open) return undefined
    this.#open = undefined
    const text = open.text.toString()
    const part = partOf(open.kind, text)
    const content: unknown[] = open.item.content
    content.push(part)
    return { ...open, text, part }
  }

  /** Puts the arguments that have come into the items of their calls. */
  #closeCalls(): void {
    for (const { item, text } of this.#calls.values()) setArguments(item, text.toString())
  }

  /** Ends the open item and its part. */
  #endItem(status: OutputItem['status']): string {
    const open = this.#open
    if (!open) return ''
    const events = this.#endText()
    const { item } = open
    if (item.type !== 'reasoning') return events + this.#itemDone(open.at.output_index, { ...item, status })
    item.status = 'completed'
    this.#reasoned.push({ item, index: open.at.output_index })
    return events
  }

  /** Ends the reasoning items. The first has the signatures of the whole message. */
  #endReasoning(): string {
    const encrypted_content = sealed({
      ...(this.#extra && { message: this.#extra }),
      calls: Object.fromEntries(this.#callExtras),
    })
    let events = ''
    if (encrypted_content !== undefined && this.#reasoned.length === 0) {
      const item = emptyReasoning()
      events += this.#itemAdded(item)
      this.#reasoned.push({ item, index: this.output.length - 1 })
    }
    for (const [place, { item, index }] of this.#reasoned.entries()) {
      const signature = place === 0 && encrypted_content !== undefined ? { encrypted_content } : {}
      events += this.#itemDone(index, { ...item, ...signature, status: 'completed' })
    }
    return events
  }

  #addCall({ index: number, kind, id, name, text: piece, extra }: MessageParts['calls'][number]): string {
    let open = this.#calls.get(number)
    let events = ''
    if (!open) {
      events += this.#endItem('completed')
      const item = emptyCall(kind, id || `call_${this.output.length}`, name)
      open = { item, index: this.output.length, text: new GrowingText() }
      this.#calls.set(number, open)
      events += this.#itemAdded(item)
    } else {
      // Some services send a name in pieces. The pieces of a call have no name that repeats it.
      open.item.name += name
    }
    const { item, index } = open
    if (extra) this.#callExtras.set(item.call_id, extra)
    if (piece === '') return events
    open.text.add(piece)
    return (
      events + this.event(`${argumentEventOf(item)}.delta`, { item_id: item.id, output_index: index, delta: piece })
    )
  }

  #itemAdded(item: OutputItem): string {
    this.output.push(item)
    return this.event('response.output_item.added', { output_index: this.output.length - 1, item })
  }

  #itemDone(index: number, item: OutputItem): string {
    this.output[index] = item
    return this.event('response.output_item.done', { output_index: index, item })
  }
}

/** The type of a call's argument events, without `.delta` or `.done`. */
function argumentEventOf({ type }: Call): string {
  return type === 'custom_tool_call' ? 'response.custom_tool_call_input' : 'response.function_call_arguments'
}

function partOf(kind: TextKind, text: string) {
  if (kind === 'output_text') return textPart(text)
  return kind === 'refusal' ? { type: kind, refusal: text } : { type: kind, text }
}
