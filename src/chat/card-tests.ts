import { type CardTest, faultsOf, testsOf } from '../characters/cards/card-tests.ts'
import type { SourcedCharacter } from '../characters/command-library.ts'
import type { KeptBook } from '../characters/lore/kept-book.ts'
import { defaultUserName, type Persona, promptSettings } from '../characters/prompt/composition.ts'
import type { Config } from '../config.ts'
import { toApiError } from '../errors.ts'
import type { ModelRegistry } from '../models/registry.ts'
import { checkMessages } from '../openai/messages.ts'
import { printable } from '../print.ts'
import { workAtOnce } from '../work/work.ts'
import type { PromptSources } from './request-composer.ts'

/** The result of one test. */
export interface CardTestResult {
  readonly test: number
  readonly passed: boolean
  /** The last message that the test sends. */
  readonly said: string
  /** The faults of the reply, or the reason why there is no reply. */
  readonly faults: readonly string[]
  readonly reply: string | null
}

/**
 * Runs the tests of a character's card with a model, each as a chat completion.
 * @throws Error if the card has no tests or a test with a fault; ApiError if there is no such model
 */
export async function runCardTests(
  character: SourcedCharacter,
  model: string,
  config: Config,
  worldBooks: readonly KeptBook[],
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
    const sources = { settings: promptSettings(config), worldBooks }
    const results: CardTestResult[] = []
    for (const [index, test] of tests.entries()) {
      const said = printable(test.messages.at(-1)?.content ?? '')
      results.push({ test: index + 1, said, ...(await runTest(test, character, model, registry, sources)) })
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
  sources: PromptSources,
): Promise<Pick<CardTestResult, 'passed' | 'faults' | 'reply'>> {
  const { RequestComposer } = await import('./request-composer.ts')
  const persona: Persona = { name, card, userName: defaultUserName, digest }
  const body = { model, messages: [...test.messages] }
  try {
    checkMessages(body.messages)
    const { completion } = await registry.resolve(model).complete({
      requestFor: new RequestComposer(body, persona, sources, workAtOnce()).requestFor,
      signal: new AbortController().signal,
    })
    const reply = completion.choices[0]?.message.content ?? ''
    const faults = faultsOf(reply, test)
    return { passed: faults.length === 0, faults, reply: printable(reply) }
  } catch (thrown) {
    const { code, message } = toApiError(thrown)
    return { passed: false, faults: [`no reply (${code}): ${message}`], reply: null }
  }
}
