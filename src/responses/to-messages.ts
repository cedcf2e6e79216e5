import { ApiError, invalidField } from '../errors.ts'
import { valueIn } from '../fields.ts'
import type { ContentPart, Message } from '../openai/completion-request.ts'
import type { InputItem, InputPart, ResponseRequest } from '../openai/response-request.ts'
import type { ToolCall } from '../openai/tool-fields.ts'
import { beginningOf } from '../text.ts'
import { maxAccountCharacters } from './output-item-cache.ts'
import { type Signatures, unsealed } from './signatures.ts'

/** Finds an output item of an earlier response, and its characters. */
export type FindItem = (id: string) => { readonly item: InputItem; readonly characters: number } | undefined

/** The messages of an input, and the origin of each. */
export interface Conversation {
  readonly messages: readonly Message[]
  /** For each message, the field that it comes from, such as `input[3]`. */
  readonly origins: readonly string[]
  /** Whether the input has reasoning items without signatures, which no model gets. */
  readonly leavesReasoning: boolean
}

/**
 * Translates a request's instructions and input into chat messages.
 * @param find finds the item of a reference by its id
 * @throws ApiError 400 that names the item
 */
export function conversationOf({ instructions, input }: ResponseRequest, find: FindItem): Conversation {
  const reader = new InputReader(find)
  if (instructions) reader.add('instructions', { role: 'system', content: instructions })
  if (typeof input === 'string') reader.add('input', { role: 'user', content: input })
  else for (const [index, item] of input.entries()) reader.read(item, `input[${index}]`)
  return reader
}

/** Translates a part of one type. */
type ReadPart = (part: InputPart, at: string) => ContentPart

class InputReader implements Conversation {
  readonly messages: Message[] = []
  readonly origins: string[] = []
  leavesReasoning = false
  /**
   * The calls of the newest message with calls. New calls are added to this array: a copy for each call would take quadratic
   * time.
   */
  #calls: ToolCall[] = []
  readonly #find: FindItem
  #signatures: Signatures | undefined
  /** The number of characters of all items that the input refers to. */
  #referred = 0

  constructor(find: FindItem) {
    this.#find = find
  }

  add(origin: string, message: Message): void {
    this.messages.push(message)
    this.origins.push(origin)
    if (message.role === 'assistant') this.#sign()
    else this.#signatures = undefined
  }

  /** Keeps the signatures of a reasoning item for the assistant's message before or after it. */
  #readReasoning({ encrypted_content: text }: InputItem): void {
    const signatures = unsealed(text ?? '')
    if (!signatures) {
      this.leavesReasoning = true
      return
    }
    this.#signatures = signatures
    if (this.messages.at(-1)?.role === 'assistant') this.#sign()
  }

  /** Adds the signatures to the last message and its calls. */
  #sign(): void {
    const last = this.messages.at(-1)
    if (!last || !this.#signatures) return
    const { message, calls } = this.#signatures
    for (const [place, call] of (last.tool_calls ?? []).entries()) {
      const extra = valueIn(calls, call.id)
      if (extra) this.#calls[place] = Object.assign({}, call, { extra_content: extra })
    }
    if (message) this.messages[this.messages.length - 1] = Object.assign({}, last, { extra_content: message })
  }

  read(item: InputItem, at: string): void {
    const type = item.type ?? (item.role === undefined ? 'item_reference' : 'message')
    if (type === 'message') this.#readMessage(item, at)
    else if (type === 'function_call' || type === 'custom_tool_call') this.#readCall(callOf(item, at), at)
    else if (type === 'function_call_output' || type === 'custom_tool_call_output') this.#readResult(item, at)
    else if (type === 'item_reference') this.#readReference(needed(item.id, `${at}.id`), at)
    else if (type === 'reasoning') this.#readReasoning(item)
    else throw unsupportedType(`${at}.type`, type)
  }

  #readMessage({ role, content }: InputItem, at: string): void {
    const said = contentOf(content, `${at}.content`)
    // In a chat message, an assistant's refusal is a separate field.
    if (role === 'assistant' && typeof said !== 'string' && said.every(isWords))
      this.add(at, { role, ...wordsOf(said) })
    else this.add(at, { role: needed(role, `${at}.role`), content: said })
  }

  /** In chat, calls after the assistant's text or after another call belong to the same message. */
  #readCall(call: ToolCall, at: string): void {
    const last = this.messages.at(-1)
    if (last?.tool_calls === this.#calls) {
      this.#calls.push(call)
      this.#sign()
      return
    }
    this.#calls = [call]
    if (last?.role === 'assistant') {
      this.messages[this.messages.length - 1] = { ...last, tool_calls: this.#calls }
      this.#sign()
    } else this.add(at, { role: 'assistant', content: null, tool_calls: this.#calls })
  }

  #readResult({ call_id, output }: InputItem, at: string): void {
    const content = contentOf(output, `${at}.output`)
    this.add(at, { role: 'tool', tool_call_id: needed(call_id, `${at}.call_id`), content })
  }

  #readReference(id: string, at: string): void {
    const found = this.#find(id)
    if (!found) throw notKept(at)
    // All cached items of an account together are within this bound. So only repeated references can exceed it.
    this.#referred += found.characters
    if (this.#referred > maxAccountCharacters) {
      throw invalidField(
        'input',
        `refers to items of more than ${maxAccountCharacters} characters: refer to each item once`,
      )
    }
    this.read(found.item, at)
  }
}

/** A call of a function or a custom tool, in the shape of chat. */
function callOf({ type, call_id, name, arguments: text = '', input = '' }: InputItem, at: string): ToolCall {
  const id = needed(call_id, `${at}.call_id`)
  const called = needed(name, `${at}.name`)
  if (type === 'custom_tool_call') return { id, type: 'custom', custom: { name: called, input } }
  return { id, type: 'function', function: { name: called, arguments: text } }
}

/** The 400 for a reference to an item that is not kept. */
function notKept(at: string): ApiError {
  return new ApiError(
    400,
    'item_not_found',
    `The field "${at}.id" refers to an item that the service does not have. It keeps items in memory for up to an hour, and keeps none with \`store: false\`. Send the items themselves, as clients do with \`store: false\`.`,
    { param: `${at}.id` },
  )
}

function isWords({ type }: ContentPart): boolean {
  return type === 'text' || type === 'refusal'
}

/** The text and the refusal of an assistant's message. */
function wordsOf(parts: readonly ContentPart[]): Pick<Message, 'content' | 'refusal'> {
  const refusal = parts.map((part) => part.refusal ?? '').join('')
  const text = parts.map((part) => part.text ?? '').join('')
  return refusal === '' ? { content: text } : { content: text || null, refusal }
}

/** Translates the content. Text parts alone become one plain text, because every upstream accepts a plain text. */
function contentOf(content: InputItem['content'], at: string): string | ContentPart[] {
  if (typeof content === 'string') return content
  const parts = needed(content, at).map((part, index) => partOf(part, `${at}[${index}]`))
  return parts.every(({ type }) => type === 'text') ? parts.map((part) => part.text ?? '').join('') : parts
}

function partOf(part: InputPart, at: string): ContentPart {
  const read = partReaders.get(part.type)
  if (!read) throw unsupportedType(`${at}.type`, part.type)
  return read(part, at)
}

const readText: ReadPart = ({ text }, at) => ({ type: 'text', text: needed(text, `${at}.text`) })

const partReaders: ReadonlyMap<string, ReadPart> = new Map(
  Object.entries<ReadPart>({
    input_text: readText,
    output_text: readText,
    text: readText,
    refusal: ({ refusal }, at) => ({ type: 'refusal', refusal: needed(refusal, `${at}.refusal`) }),
    input_image: ({ image_url: url, file_id: id, detail }, at) => {
      if (id != null) throw unsupported(`${at}.file_id`, 'is not supported: send image_url')
      return {
        type: 'image_url',
        image_url: { url: needed(url, `${at}.image_url`), ...(detail == null ? {} : { detail }) },
      }
    },
    input_file: ({ file_data: data, file_id: id, file_url: url, filename }, at) => {
      if (url != null) throw unsupported(`${at}.file_url`, 'is not supported: send file_data')
      if (data == null && id == null) throw invalidField(`${at}.file_data`, 'is missing: a part of this type needs it')
      return {
        type: 'file',
        file: {
          ...(data == null ? {} : { file_data: data }),
          ...(id == null ? {} : { file_id: id }),
          ...(filename == null ? {} : { filename }),
        },
      }
    },
    input_audio: ({ input_audio: audio }, at) => ({
      type: 'input_audio',
      input_audio: needed(audio, `${at}.input_audio`),
    }),
  }),
)

function needed<T>(value: T | null | undefined, at: string): T {
  if (value == null) throw invalidField(at, 'is missing: an item of this type needs it')
  return value
}

/** The 400 for a field that OpenAI's service supports and Conservatory does not. */
export function unsupported(param: string, problem: string): ApiError {
  return new ApiError(400, 'unsupported_parameter', `The field "${param}" ${problem}.`, { param })
}

/** The most characters of a type that an error message repeats. */
const maxShownLength = 100

/** The 400 for a type that OpenAI's service supports, or that no service supports. @param advice what to send in its place */
export function unsupportedType(param: string, type: string, advice = ''): ApiError {
  return unsupported(param, `is "${beginningOf(type, maxShownLength)}", which is not supported${advice}`)
}
