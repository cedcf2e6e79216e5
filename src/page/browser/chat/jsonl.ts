import { type Message, type Swipe, shownSwipe } from './messages.ts'

/** The conversation in a file. */
export interface ImportedTalk {
  readonly characterName: string
  readonly messages: readonly Message[]
  /** The number of lines that are not a message of the user or the character, such as notes of a program and unreadable lines. */
  readonly skipped: number
}

/** The lines that are read without a pause, because thousands of long lines would block the page. */
const linesPerTurn = 100

/**
 * Writes a conversation as SillyTavern's JSONL: a line about the conversation, then a line for each message.
 * @param created Unix milliseconds
 */
export function toJsonl(
  messages: readonly Message[],
  { name, created, userName }: { readonly name: string; readonly created: number; readonly userName: string },
): string {
  const user = userName || 'User'
  const head = {
    user_name: user,
    character_name: name,
    create_date: new Date(created).toISOString(),
    chat_metadata: {},
  }
  const lines = messages.map((message) => lineOf(message, message.role === 'user' ? user : name))
  return [head, ...lines].map((line) => `${JSON.stringify(line)}\n`).join('')
}

function lineOf(message: Message, name: string) {
  const { role, swipes, shown } = message
  const line = {
    name,
    is_user: role === 'user',
    is_system: false,
    send_date: dateOf(shownSwipe(message)),
    mes: shownSwipe(message).text,
    extra: extraOf(shownSwipe(message)),
  }
  if (role === 'user') return line
  // Without `swipe_info` some versions of SillyTavern show only the first text.
  const details = swipes.map((swipe) => ({ send_date: dateOf(swipe), extra: extraOf(swipe) }))
  return { ...line, swipe_id: shown, swipes: swipes.map(({ text }) => text), swipe_info: details }
}

function dateOf({ at }: Swipe): string {
  return new Date(at).toISOString()
}

function extraOf({ origin }: Swipe): { readonly model?: string } {
  return origin?.model ? { model: origin.model } : {}
}

/**
 * Reads a file of this page or of SillyTavern.
 * @throws Error if the file has no message
 */
export async function readJsonl(file: string): Promise<ImportedTalk> {
  const [head, ...lines] = await linesOf(file)
  const isHead = head !== undefined && messageOf(head, 1) === undefined && textField(head, 'user_name') !== ''
  const said = isHead || head === undefined ? lines : [head, ...lines]
  const messages = said.map((line, index) => messageOf(line, index + 1)).filter((message) => message !== undefined)
  const [first] = messages
  if (!first) {
    throw new Error('This file has no message in it. Choose a .jsonl file that this page or SillyTavern has written.')
  }
  if (first.role === 'assistant') messages[0] = { ...first, isOpening: true }
  const speaker = said.find((line) => Reflect.get(line, 'is_user') !== true)
  const named = isHead ? textField(head, 'character_name') : ''
  // Newer versions of SillyTavern write "unused" for both names.
  const isNamed = named !== '' && named !== 'unused'
  const characterName = isNamed || !speaker ? named : textField(speaker, 'name')
  return { characterName, messages, skipped: said.length - messages.length }
}

async function linesOf(file: string): Promise<readonly object[]> {
  const lines: object[] = []
  for (const [index, text] of file
    .replace(/^\uFEFF/, '')
    .split('\n')
    .entries()) {
    if (index % linesPerTurn === linesPerTurn - 1) await new Promise((resolve) => setTimeout(resolve))
    if (text.trim() !== '') lines.push(parsed(text))
  }
  return lines
}

function messageOf(line: object, id: number): Message | undefined {
  const text = spoken(Reflect.get(line, 'mes'))
  if (text === undefined || Reflect.get(line, 'is_system') === true) return undefined
  const at = timeOf(Reflect.get(line, 'send_date'))
  if (Reflect.get(line, 'is_user') === true) return { id, role: 'user', swipes: [{ text, at }], shown: 0 }
  const texts = textsOf(Reflect.get(line, 'swipes'))
  const wanted: unknown = Reflect.get(line, 'swipe_id')
  const chosen = typeof wanted === 'number' && wanted in texts ? wanted : 0
  const all = texts.toSpliced(chosen, 1, text)
  // Unreadable texts are left out only here, because `swipe_id` counts them.
  const readable = all.filter((each) => each !== undefined)
  const shown = all.slice(0, chosen).filter((each) => each !== undefined).length
  return { id, role: 'assistant', swipes: readable.map((each) => ({ text: each, at })), shown }
}

/** The texts of the list `swipes`; undefined for an unreadable text. */
function textsOf(swipes: unknown): readonly (string | undefined)[] {
  return Array.isArray(swipes) ? swipes.map(spoken) : []
}

/** The text of a message: a string, or the field `message` of an object, as Chub writes it. */
function spoken(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const inner: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'message') : undefined
  return typeof inner === 'string' ? inner : undefined
}

/**
 * A date in Unix milliseconds. Browsers cannot parse the dates of older versions of SillyTavern. Such a date becomes the current
 * time.
 */
function timeOf(date: unknown): number {
  const time = typeof date === 'number' ? date : typeof date === 'string' ? Date.parse(date) : Number.NaN
  return Number.isFinite(time) && Math.abs(time) <= 8.64e15 ? time : Date.now()
}

function textField(line: object, name: string): string {
  const value: unknown = Reflect.get(line, name)
  return typeof value === 'string' ? value : ''
}

function parsed(text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
