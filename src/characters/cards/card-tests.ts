import { RE2JS } from 're2js'
import { isFields, valueIn } from '../../fields.ts'
import { dataOf } from './versions.ts'

interface TestMessage {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: string
}

/** A test in a card: the messages, and what the reply must contain and must not contain. */
export interface CardTest {
  readonly messages: readonly TestMessage[]
  /** Texts that the reply must contain (`includes`) or must not contain (`excludes`), without regard to case. */
  readonly includes: readonly string[]
  readonly excludes: readonly string[]
  readonly matches: readonly RE2JS[]
}

/** The most characters of a pattern, and of the beginning of a reply that patterns search: a card may come from an attacker. */
const maxPatternLength = 1000
const maxReplyLength = 65_536
/** The most instructions of a compiled pattern, as for lorebook keys. The short `(a{1,100}){1,10}` has thousands. */
const maxProgramSize = 2000

/** The tests in a card's `extensions.conservatory.tests`, and a sentence for each unreadable test. */
export function testsOf(document: Readonly<Record<string, unknown>>): {
  readonly tests: readonly CardTest[]
  readonly faults: readonly string[]
} {
  const extensions = valueIn(dataOf(document), 'extensions')
  const ours = isFields(extensions) ? valueIn(extensions, 'conservatory') : undefined
  const list = isFields(ours) ? valueIn(ours, 'tests') : undefined
  if (list === undefined) return { tests: [], faults: [] }
  if (!Array.isArray(list)) return { tests: [], faults: ['extensions.conservatory.tests is not a list.'] }
  const tests: CardTest[] = []
  const faults: string[] = []
  for (const [index, item] of list.entries()) {
    const test = readTest(item)
    if (typeof test === 'string') faults.push(`extensions.conservatory.tests[${index}] ${test}.`)
    else tests.push(test)
  }
  return { tests, faults }
}

/** The test in an item of the list, or the fault of the item as the end of a sentence. */
function readTest(item: unknown): CardTest | string {
  if (!isFields(item)) return 'is not an object'
  const messages = valueIn(item, 'messages')
  if (!Array.isArray(messages) || messages.length === 0) return 'has no list of messages'
  const read = messages.map(readMessage)
  const whole = read.filter((message) => message !== undefined)
  if (whole.length < read.length) return 'has a message without a role or without content'
  const expect = valueIn(item, 'expect')
  if (!isFields(expect)) return 'expects nothing'
  const [includes, excludes, patterns] = ['includes', 'excludes', 'matches'].map((name) =>
    textsOf(valueIn(expect, name)),
  )
  if (!includes || !excludes || !patterns) return 'expects something else than texts'
  if (includes.length + excludes.length + patterns.length === 0) return 'expects nothing'
  if (patterns.some((pattern) => pattern.length > maxPatternLength))
    return `has a pattern of more than ${maxPatternLength} characters`
  const matches: RE2JS[] = []
  for (const pattern of patterns) {
    const compiled = compile(pattern)
    if (typeof compiled === 'string') return compiled
    matches.push(compiled)
  }
  return { messages: whole, includes, excludes, matches }
}

/** The compiled pattern, or its fault as the end of a sentence. RE2 is used because it searches in linear time. */
function compile(pattern: string): RE2JS | string {
  const shown = `the pattern ${JSON.stringify(pattern)}`
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    return compiled.programSize() > maxProgramSize ? `has ${shown}, which repeats too much` : compiled
  } catch {
    return `has ${shown}, which RE2 does not support: RE2 has no lookaround such as (?=…) and no back reference such as \\1`
  }
}

function readMessage(message: unknown): TestMessage | undefined {
  if (!isFields(message)) return undefined
  const role = valueIn(message, 'role')
  const content = valueIn(message, 'content')
  const isRole = role === 'user' || role === 'assistant' || role === 'system'
  return isRole && typeof content === 'string' ? { role, content } : undefined
}

function textsOf(value: unknown): readonly string[] | undefined {
  const list: readonly unknown[] = value === undefined ? [] : Array.isArray(value) ? value : [value]
  const texts = list.filter((text) => typeof text === 'string')
  return texts.length === list.length ? texts : undefined
}

/** The differences between a reply and a test's expectations, as ends of sentences; none when the test passes. */
export function faultsOf(reply: string, { includes, excludes, matches }: CardTest): readonly string[] {
  const folded = reply.toLowerCase()
  const has = (text: string) => folded.includes(text.toLowerCase())
  return [
    ...includes.filter((text) => !has(text)).map((text) => `does not include ${JSON.stringify(text)}`),
    ...excludes.filter(has).map((text) => `includes ${JSON.stringify(text)}`),
    ...matches
      .filter((pattern) => !pattern.matcher(reply.slice(0, maxReplyLength)).find())
      .map((pattern) => `does not match /${pattern.pattern()}/`),
  ]
}
