import { dataOf } from '../characters/cards/summary.ts'
import { isFields, valueIn } from '../characters/documents/fields.ts'
import type { Lorebook } from '../characters/lore/lorebook.ts'
import { type Persona, promptSettings } from '../characters/prompt/settings.ts'
import type { SourcedCharacter } from '../characters/shelf.ts'
import type { Config } from '../config.ts'
import { toApiError } from '../errors.ts'
import type { ModelRegistry } from '../models/registry.ts'
import { checkMessages } from '../openai/messages.ts'
import { printable } from '../print.ts'
import type { PromptMaking } from './exchange.ts'

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

/** What came of one test. */
export interface CardTestResult {
  readonly test: number
  readonly passed: boolean
  /** The last thing said. */
  readonly said: string
  /** What is wrong with the reply, or why there is none. */
  readonly faults: readonly string[]
  readonly reply: string | null
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

/**
 * Runs the tests of a character's card with a model, each as a chat completion would run.
 * @throws Error when the card has none, or one that cannot be read; ApiError when there is no such model
 */
export async function runCardTests(
  character: SourcedCharacter,
  model: string,
  config: Config,
  worldBooks: readonly Lorebook[],
): Promise<readonly CardTestResult[]> {
  const { tests, faults } = testsOf(character.source.document)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  if (tests.length === 0) throw new Error('The card has no tests: there is no extensions.conservatory.tests in it.')
  const [{ loadModels }, { ModelRegistry }] = await Promise.all([
    import('../models/configuration/configuration.ts'),
    import('../models/registry.ts'),
  ])
  const registry = new ModelRegistry(await loadModels(config), config)
  try {
    registry.resolve(model)
    const making = { settings: promptSettings(config), worldBooks }
    const results: CardTestResult[] = []
    for (const [index, test] of tests.entries()) {
      const said = printable(test.messages.at(-1)?.content ?? '')
      results.push({ test: index + 1, said, ...(await runTest(test, character, model, registry, making)) })
    }
    return results
  } finally {
    await registry.close()
  }
}

async function runTest(
  test: CardTest,
  { name, card, digest }: SourcedCharacter,
  model: string,
  registry: ModelRegistry,
  making: PromptMaking,
): Promise<Pick<CardTestResult, 'passed' | 'faults' | 'reply'>> {
  const { Exchange } = await import('./exchange.ts')
  const persona: Persona = { name, card, userName: 'User', digest }
  const body = { model, messages: [...test.messages] }
  try {
    checkMessages(body.messages)
    const { completion } = await registry
      .resolve(model)
      .complete(
        async (candidate) => (await new Exchange(body, persona, making).ask(candidate)).request,
        new AbortController().signal,
      )
    const reply = completion.choices[0]?.message.content ?? ''
    const faults = faultsOf(reply, test)
    return { passed: faults.length === 0, faults, reply: printable(reply) }
  } catch (thrown) {
    const { code, message } = toApiError(thrown)
    return { passed: false, faults: [`no reply (${code}): ${message}`], reply: null }
  }
}
