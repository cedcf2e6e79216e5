import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import { readExamples } from '../../../src/characters/cards/examples.ts'
import { stem } from '../../../src/models/understudy/stem.ts'
import { wordsOf } from '../../../src/models/understudy/words.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { atOnce } from '../../support/composed.ts'
import { cardIn } from '../../support/lore-cards.ts'
import { asking, textOf } from '../../support/mallow.ts'

/** Twenty turns with each starter, and with five cards in the style of third parties' cards. */
const lines: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync('test/models/understudy/conversations.json', 'utf8'),
)

interface Turn {
  readonly line: string
  readonly reply: string
  /** What the user had said until then, this line included. */
  readonly heard: readonly string[]
}

interface Talk {
  readonly card: Card
  readonly source: string
  readonly greeting: string
  readonly turns: readonly Turn[]
}

async function talk(file: string, said: readonly string[]): Promise<Talk> {
  const source = readFileSync(file.includes('/') ? file : join('test/models/understudy/cards', file), 'utf8')
  const card = cardIn(JSON.parse(source))
  const greeting = (card.greetings[0] ?? '').replaceAll('{{user}}', 'friend').replaceAll('{{char}}', card.name)
  const messages: Message[] = [{ role: 'assistant', content: greeting }]
  const turns: Turn[] = []
  for (const [index, line] of said.entries()) {
    messages.push({ role: 'user', content: line })
    const reply = await textOf(asking(messages, {}, card, 'User'))
    turns.push({ line, reply, heard: said.slice(0, index + 1) })
    messages.push({ role: 'assistant', content: reply })
  }
  return { card, source, greeting, turns }
}

const talks: Talk[] = []

beforeAll(async () => {
  for (const [file, said] of Object.entries(lines)) talks.push(await talk(file, said))
})

/** What points to something else that may be asked, instead of telling anything. */
const pointing = /\bask me\b|\bhad you asked\b|\ba thing or two about\b|\blet us talk about\b|\btry me with\b/i

/** Words of a text that tell something. */
function telling(text: string): ReadonlySet<string> {
  return new Set(wordsOf(text).flatMap(({ text: word, term }) => (term === null ? [] : stem(word.toLowerCase()))))
}

/** Whether a reply has a fact of the card, or of what the user said before: telling words that the last line has not. */
function hasFact({ card, source }: Talk, { reply, line, heard }: Turn): boolean {
  const asked = telling(line)
  const own = [...telling(reply)].filter((word) => !asked.has(word))
  const written = telling(source)
  const earlier = telling(heard.slice(0, -1).join('\n'))
  const names = telling(card.name)
  const isKnown = own.filter((word) => written.has(word) && !names.has(word)).length >= 3
  return isKnown || own.filter((word) => earlier.has(word)).length >= 1 || (heard.length === 1 && reply.length > 80)
}

/** The sentences of replies that were said before. */
function repeats({ turns }: Talk): number {
  const known = new Set<string>()
  return turns.filter(({ reply }) => {
    const isKnown = known.has(reply)
    known.add(reply)
    return isKnown
  }).length
}

function gatedIn({ card }: Talk): readonly string[] {
  return (card.book?.entries ?? [])
    .filter(({ decorators }) => JSON.stringify(decorators).includes('activateOnlyAfter') || /never/.test(''))
    .map(({ body }) => body)
}

function usersLinesOf({ card }: Talk): readonly string[] {
  const texts = [card.examples, card.description, card.scenario, ...(card.book?.entries ?? []).map(({ body }) => body)]
  return texts.flatMap((text) =>
    atOnce(readExamples(text, { character: card.name, user: '{{user}}', nickname: '{{char}}' }))
      .flat()
      .flatMap(({ speaker, text: said }) => (speaker === 'user' ? said : [])),
  )
}

function counts(talk: Talk) {
  const replies = talk.turns.map(({ reply }) => reply)
  const having = (texts: readonly string[]) =>
    replies.filter((reply) => texts.some((text) => reply.includes(text))).length
  return {
    turns: replies.length,
    pointers: replies.filter((reply) => pointing.test(reply)).length,
    repeats: repeats(talk),
    usersLines: having(usersLinesOf(talk)),
    gated: having(gatedIn(talk)),
    facts: talk.turns.filter((turn) => hasFact(talk, turn)).length,
  }
}

test('prints', () => {
  for (const each of talks) {
    console.log(
      `### ${each.card.name} ${JSON.stringify(counts(each))} gates=${gatedIn(each).length} users=${usersLinesOf(each).length}`,
    )
    for (const turn of each.turns) console.log(`> ${turn.line}\n${hasFact(each, turn) ? '+' : '-'} ${turn.reply}`)
  }
  expect(talks).toHaveLength(9)
})
describe.skip('x', () => {})
