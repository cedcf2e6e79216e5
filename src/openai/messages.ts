import { invalidField } from '../errors.ts'
import { type Fields, fieldsIn, isFields, listIn } from '../fields.ts'
import { type ContentPart, type Message, partTypes } from './completion-request.ts'
import { checkKind, isKnownKind, unknownKind } from './tools.ts'

/**
 * The most content parts and tool calls of all messages together: two for each of the 10,000 messages that a request may have.
 */
const maxPartsInAll = 20_000

/**
 * Checks the rules that the schema of messages cannot express: the fields that a role or a part needs, tool results that answer
 * a call, the schemes of URLs, and the number of parts and calls of all messages together.
 * @throws ApiError 400 that names the message
 */
export function checkMessages(messages: readonly Message[]): void {
  checkPartsInAll(messages)
  const openCalls = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const at = `messages[${index}]`
    for (const [place, call] of (message.tool_calls ?? []).entries()) {
      if (isKnownKind(call)) checkKind(call, `${at}.tool_calls[${place}]`)
      openCalls.add(call.id)
    }
    if (message.role === 'tool') checkToolResult(message, openCalls, at)
    const mayLackContent = message.role === 'assistant' || message.role === 'function'
    if (message.content == null && !mayLackContent) throw invalidField(`${at}.content`, 'is missing: send a text')
    if (Array.isArray(message.content)) checkParts(message.content, `${at}.content`, message.role === 'assistant')
  }
}

/**
 * Checks that each tool call is of a known type, for a model that reads the calls.
 * @throws ApiError 400 that names the call
 */
export function checkCallTypes(messages: readonly Message[]): void {
  for (const [index, { tool_calls: calls }] of messages.entries()) {
    const place = calls?.findIndex((call) => !isKnownKind(call)) ?? -1
    if (place !== -1) throw invalidField(`messages[${index}].tool_calls[${place}].type`, unknownKind)
  }
}

function checkPartsInAll(messages: readonly Message[]): void {
  let parts = 0
  for (const { content, tool_calls: calls } of messages) {
    parts += (Array.isArray(content) ? content.length : 0) + (calls?.length ?? 0)
  }
  if (parts <= maxPartsInAll) return
  throw invalidField(
    'messages',
    `has ${parts} content parts and tool calls in all: send at most ${maxPartsInAll}, or texts without parts`,
  )
}

/** @param openCalls the ids of the calls in the messages before this one */
function checkToolResult({ tool_call_id: id }: Message, openCalls: ReadonlySet<string>, at: string): void {
  if (!id) throw invalidField(`${at}.tool_call_id`, 'is missing: a tool message names the call that it answers')
  if (!openCalls.has(id)) throw invalidField(`${at}.tool_call_id`, 'names no tool call of an earlier assistant message')
}

/** @param isAnswer whether a model sent the parts, which may be of other types then */
function checkParts(parts: readonly ContentPart[], at: string, isAnswer: boolean): void {
  for (const [index, part] of parts.entries()) {
    const place = `${at}[${index}]`
    if (isKnownType(part.type)) checkPart(part, part.type, place)
    else if (isAnswer) checkUnread(part, place)
    else throw invalidField(`${place}.type`, `is not valid: send one of ${partTypes.join(', ')}`)
  }
}

function isKnownType(type: string): type is (typeof partTypes)[number] {
  return partTypes.some((each) => each === type)
}

function checkPart(part: ContentPart, type: (typeof partTypes)[number], at: string): void {
  if (part[type] === undefined) throw invalidField(`${at}.${type}`, `is missing: a part of this type needs it`)
  for (const kind of addressedKinds) {
    const addressed = part[kind]
    if (addressed && !isPlainUrl(addressed.url)) throw invalidField(`${at}.${kind}.url`, plainUrls)
  }
  for (const kind of filedKinds) checkFields(part[kind] ?? {}, `${at}.${kind}`)
}

/** Properties of parts that have words of a model, and no address. */
const wordNames: ReadonlySet<string> = new Set(['text', 'thinking', 'refusal'])

/** The texts of a part of an unknown type that may be an address, with the paths of their fields. */
export function* unreadTexts(part: ContentPart, at: string): Iterable<readonly [param: string, text: string]> {
  if (isKnownType(part.type)) return
  const found: [value: unknown, path: string][] = [[part, at]]
  for (const [value, path] of found) {
    for (const [name, item] of Object.entries(value ?? {})) {
      const place = Array.isArray(value) ? `${path}[${name}]` : `${path}.${name}`
      if (typeof item === 'object') found.push([item, place])
      else if (typeof item === 'string' && !wordNames.has(name)) yield [place, item]
    }
  }
}

function checkUnread(part: ContentPart, at: string): void {
  for (const [param, text] of unreadTexts(part, at)) if (isUnreadUrl(text)) throw invalidField(param, plainUrls)
}

/** Whether a text is a URL of another scheme. Words before a colon are none. */
function isUnreadUrl(text: string): boolean {
  const beginning = text.slice(0, maxBeginning).replace(/[\s\p{Cc}]+/gu, '')
  return /^(?:[a-z][a-z0-9+.-]{0,30}:\/|file:)/iu.test(beginning) && !isPlainUrl(text)
}

const addressedKinds = ['image_url', 'audio_url', 'video_url'] as const
/** The kinds of parts whose content may be a URL. */
export const filedKinds = [...addressedKinds, 'input_audio', 'file'] as const

/** The most fields of a part's content. OpenAI's contents have at most three. */
const maxFields = 64

function checkFields(fields: Fields, at: string): void {
  let count = 0
  for (const name in fields) {
    if (++count > maxFields) throw invalidField(at, `has more than ${maxFields} fields: send only those of its type`)
    if (name !== 'filename' && isOtherUrl(fields[name])) throw invalidField(`${at}.${name}`, plainUrls)
  }
}

const plainUrls = 'is of another kind than http:, https: and data: URLs; send one of those'

/** Whether a text is a `data:` URL or a web address. Such a URL cannot name a file on the upstream's disk. */
function isPlainUrl(text: string): boolean {
  return /^(?:https?:\/\/|data:)/i.test(text)
}

/** The most characters in which a scheme is searched, because a content may have megabytes. */
const maxBeginning = 1000
/** The most characters of a scheme with its colon. */
const maxScheme = 32

/**
 * Whether a value is a URL of another scheme. An id of a file has no scheme, and base64 has no colon. Blanks do not count, because
 * URL parsers leave line breaks out even within a scheme; a text that is almost only blanks is no content.
 */
function isOtherUrl(value: unknown): boolean {
  if (typeof value !== 'string') return false
  const beginning = value.slice(0, maxBeginning).replace(/[\s\p{Cc}]+/gu, '')
  if (beginning.length < maxScheme && value.length >= maxBeginning) return true
  return /^[a-z][a-z0-9+.-]{0,30}:/iu.test(beginning) && !isPlainUrl(value)
}

/**
 * Gives the assistant's messages of a request the form of OpenAI's API, before they are checked: clients send answers back as they
 * came, and some servers send calls without a type, arguments as an object, or an empty list of parts.
 * @param body the parsed body of a request
 */
export function mendAnswers(body: unknown): void {
  for (const message of listIn(isFields(body) ? body : {}, 'messages')) {
    if (!isFields(message) || message['role'] !== 'assistant') continue
    if (Array.isArray(message['content']) && message['content'].length === 0) set(message, 'content', null)
    for (const call of listIn(message, 'tool_calls')) if (isFields(call)) mendCall(call)
  }
}

function mendCall(call: Fields): void {
  const kind = isFields(call['custom']) && !isFields(call['function']) ? 'custom' : 'function'
  if (call['type'] == null && isFields(call[kind])) set(call, 'type', kind)
  const called = fieldsIn(call, 'function')
  const { arguments: given } = called
  if (typeof given !== 'string' && isFields(call['function']))
    set(called, 'arguments', given == null ? '' : JSON.stringify(given))
}

function set(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true })
}
