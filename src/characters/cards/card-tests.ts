import { isFields, valueIn } from '../../fields.ts'
import { dataOf } from './summary.ts'

interface TestMessage {
  readonly role: 'user' | 'assistant' | 'system'
  readonly content: string
}

/** A test that a card brings: what is said, and what the reply must and must not have in it. */
export interface CardTest {
  readonly messages: readonly TestMessage[]
  /** In any case of letters. */
  readonly includes: readonly string[]
  readonly excludes: readonly string[]
  readonly matches: readonly RegExp[]
}

/** Longest pattern, and longest part of a reply that patterns are tried on: they come from whoever wrote the card. */
const longestPattern = 1000
const longestReply = 65_536

/** The tests in a card's `extensions.conservatory.tests`, and what cannot be read of them. */
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

/** A test, or what is wrong with it as the end of a sentence. */
function readTest(item: unknown): CardTest | string {
  if (!isFields(item)) return 'is not an object'
  const messages = valueIn(item, 'messages')
  if (!Array.isArray(messages) || messages.length === 0) return 'has no list of messages'
  const read = messages.map(readMessage)
  const whole = read.filter((message) => message !== undefined)
  if (whole.length < read.length) return 'has a message without role and content'
  const expect = valueIn(item, 'expect')
  if (!isFields(expect)) return 'expects nothing'
  const [includes, excludes, patterns] = ['includes', 'excludes', 'matches'].map((name) =>
    textsOf(valueIn(expect, name)),
  )
  if (!includes || !excludes || !patterns) return 'expects something else than lists of texts'
  if (includes.length + excludes.length + patterns.length === 0) return 'expects nothing'
  if (patterns.some((pattern) => pattern.length > longestPattern)) return 'has a pattern that is too long'
  try {
    return { messages: whole, includes, excludes, matches: patterns.map((pattern) => new RegExp(pattern, 'u')) }
  } catch {
    return 'has a pattern that is no regular expression'
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

/** What a reply has, or has not, against a test. */
export function faultsOf(reply: string, { includes, excludes, matches }: CardTest): readonly string[] {
  const folded = reply.toLowerCase()
  const has = (text: string) => folded.includes(text.toLowerCase())
  return [
    ...includes.filter((text) => !has(text)).map((text) => `does not include ${JSON.stringify(text)}`),
    ...excludes.filter(has).map((text) => `includes ${JSON.stringify(text)}`),
    ...matches
      .filter((pattern) => !pattern.test(reply.slice(0, longestReply)))
      .map((pattern) => `does not match /${pattern.source}/`),
  ]
}
