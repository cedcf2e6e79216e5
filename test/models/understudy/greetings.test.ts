import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cardOf, type KeptCard } from '../../../src/characters/cards/kept-card.ts'
import { shownGreetings } from '../../../src/characters/prompt/greetings.ts'
import { kept, keptCard } from '../../support/kept-cards.ts'
import { asking, partsOf, textOf } from '../../support/mallow.ts'

const starters = readdirSync('data/characters')
  .filter((file) => file.endsWith('.json'))
  .map((file) => kept(JSON.parse(readFileSync(`data/characters/${file}`, 'utf8'))))

/** The greetings of a card for a user. */
function greetingsOf(card: KeptCard, userName: string): readonly string[] {
  const greetings: string[] = []
  const persona = { name: cardOf(card).name, digest: '', userName }
  shownGreetings(cardOf(card), persona, { now: new Date(0) }, (_, text) => greetings.push(text))
  return greetings
}

/** The sentences of four words or more, such as no reply repeats by chance ("I'm Bolt."), without punctuation and the user's name. */
function sentencesOf(text: string, userName: string): readonly string[] {
  return text
    .replaceAll(userName, '')
    .toLowerCase()
    .split(/(?<=[.!?])["”*]*\s+|\n+/)
    .map((sentence) => sentence.replace(/[^\p{L}\p{N}]+/gu, ' ').trim())
    .filter((sentence) => sentence.split(' ').length >= 4)
}

/** The reply to a message, with a greeting that the service inserts, or that the client sent as the first assistant message. */
function replyTo(said: string, card: KeptCard, userName: string, greeting: number, isSent: boolean, seed?: number) {
  const sent = { role: 'assistant' as const, content: greetingsOf(card, userName)[greeting] ?? '' }
  const messages = [...(isSent ? [sent] : []), { role: 'user' as const, content: said }]
  const request = asking(messages, seed === undefined ? {} : { seed }, card, userName)
  const { persona } = request
  return textOf({ ...request, composition: partsOf({ persona, messages, greeting }) })
}

const hellos = [
  ...['Hello', 'hello', 'Hi!', 'Hey there', 'Good evening!', 'Hello, and well met.', 'hello again', ''],
  ...[
    "Hi, I'm Anna.",
    'Hello, how are you?',
    'Who are you?',
    'ok',
    'Tell me about yourself.',
    '*waves*',
    'Can you help me?',
  ],
]

test('no reply has a sentence of a greeting: over all starters, greetings, ways to send them and hellos', async () => {
  const chosen = starters.flatMap((each) => {
    const card = cardOf(each)
    return card.greetings.map((_, greeting) => [card.name, greeting] as const)
  })
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...chosen),
      fc.constantFrom(...hellos),
      fc.constantFrom('User', 'Mara'),
      fc.boolean(),
      fc.option(fc.nat({ max: 40 }), { nil: undefined }),
      async ([name, greeting], hello, userName, isSent, seed) => {
        const card = starters.find((each) => cardOf(each).name === name)
        if (!card) throw new Error(`no card ${name}`)
        const reply = sentencesOf(await replyTo(hello, card, userName, greeting, isSent, seed), userName)
        const known = new Set(greetingsOf(card, userName).flatMap((text) => sentencesOf(text, userName)))
        expect(reply.filter((sentence) => known.has(sentence))).toEqual([])
      },
    ),
    { numRuns: 400 },
  )
})

test('a greeting counts as said, whether the service inserts it or the client sends it', async () => {
  for (const card of starters) {
    for (const hello of hellos) {
      expect(await replyTo(hello, card, 'User', 0, false)).toBe(await replyTo(hello, card, 'User', 0, true))
    }
  }
})

describe('a sentence that opened the conversation is not said again', () => {
  const sentence = 'The lamp on the ferry burns all night.'
  const examples = `<START>\n{{user}}: What burns on the ferry?\n{{char}}: ${sentence} Come and see.`

  test.each([
    ['a greeting of the card', { first_mes: `Ahoy, {{user}}. ${sentence}` }, []],
    ['a greeting that was not chosen', { first_mes: 'Ahoy.', alternate_greetings: [`Oh. ${sentence}`] }, []],
    ['the client’s own first message', {}, [{ role: 'assistant' as const, content: `Ahoy!\r\n\r\n${sentence}` }]],
  ])('%s', async (_, fields, opening) => {
    const card = keptCard({ name: 'Ida', mes_example: examples, ...fields })
    const told = keptCard({ name: 'Ida', mes_example: examples })
    const question = { role: 'user' as const, content: 'What burns on the ferry?' }
    expect(await textOf(asking([question], {}, told))).toContain(sentence)
    expect(await textOf(asking([...opening, question], {}, card))).not.toContain(sentence)
  })
})
