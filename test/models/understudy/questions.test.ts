import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { cardOf } from '../../../src/characters/cards/kept-card.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { kept } from '../../support/kept-cards.ts'
import { asking, mallow, textOf } from '../../support/mallow.ts'

/** Questions that are hard for the understudy, with patterns that the answer must match and must not match. */
const { conversation: questions }: { readonly conversation: readonly Question[] } = JSON.parse(
  readFileSync('test/models/understudy/understudy.questions.json', 'utf8'),
)

interface Question {
  readonly character: string
  /** The user's earlier messages; the understudy answers them. */
  readonly said?: readonly string[]
  readonly question: string
  readonly matches: string
  readonly excludes?: string
}

const folders = ['data/characters', 'test/models/understudy/cards']
const cards = folders.flatMap((folder) =>
  readdirSync(folder).map((file) => kept(JSON.parse(readFileSync(join(folder, file), 'utf8')))),
)

test('there are sixty or more hard questions, and no question twice', () => {
  expect(questions.length).toBeGreaterThanOrEqual(60)
  expect(new Set(questions.map(({ question, character }) => `${character}/${question}`)).size).toBe(questions.length)
})

test.each(questions)('$character: $question', async ({ character, said = [], question, matches, excludes }) => {
  const card = [mallow, ...cards].find((each) => cardOf(each).name === character)
  if (!card) throw new Error(`no card of ${character}`)
  const messages: Message[] = []
  for (const line of [...said, question]) {
    messages.push({ role: 'user', content: line })
    messages.push({ role: 'assistant', content: await textOf(asking(messages, {}, card, 'User')) })
  }
  const reply = String(messages.at(-1)?.content)
  expect(reply).toMatch(new RegExp(matches))
  if (excludes !== undefined) expect(reply).not.toMatch(new RegExp(excludes))
})
