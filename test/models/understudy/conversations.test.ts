import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import { readExamples } from '../../../src/characters/cards/examples.ts'
import * as phrases from '../../../src/models/understudy/phrases.ts'
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
  const greeting = (card.greetings[0] ?? '')
    .replaceAll('{{user}}', 'User')
    .replaceAll('{{char}}', card.nickname || card.name)
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

/** Words of the phrases that are the understudy's own. */
const stock = telling(Object.values(phrases).flatMap(textsIn).join('\n'))

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** Whether a reply has a fact of the card, or of what the user said before: a telling word that neither the line nor a stock phrase has. */
function hasFact({ card, source }: Talk, { reply, line, heard }: Turn): boolean {
  const asked = telling(line)
  const names = telling(card.name)
  const known = new Set([...telling(source), ...telling(heard.slice(0, -1).join('\n'))])
  return [...telling(reply)].some((word) => known.has(word) && !asked.has(word) && !stock.has(word) && !names.has(word))
}

/** How many replies have a sentence of five words or more that an earlier one had. */
function repeats({ turns }: Talk): number {
  const known = new Set<string>()
  return turns.filter(({ reply }) => {
    const sentences = reply.split(/(?<=[.!?:])\s+/).filter((sentence) => sentence.split(' ').length >= 5)
    const isRepeat = sentences.some((sentence) => known.has(sentence))
    for (const sentence of sentences) known.add(sentence)
    return isRepeat
  }).length
}

/** The bodies of lore that opens only late in a conversation. */
function gatedIn({ source }: Talk): readonly string[] {
  return Array.from(source.matchAll(/@@activate_only_after \d+\\n([^"\\]+)/g), ([, body = '']) => body.slice(-30))
}

function usersLinesOf({ card }: Talk): readonly string[] {
  const texts = [card.examples, card.description, card.scenario, ...(card.book?.entries ?? []).map(({ body }) => body)]
  const names = { character: card.name, user: '{{user}}', nickname: '{{char}}' }
  return texts
    .flatMap((text) => atOnce(readExamples(text, names)).flat())
    .flatMap(({ speaker, text }) => (speaker === 'user' ? text : []))
}

function countsOf(talk: Talk) {
  const replies = talk.turns.map(({ reply }) => reply)
  const having = (texts: readonly string[]) =>
    replies.filter((reply) => texts.some((text) => reply.toLowerCase().includes(text.toLowerCase()))).length
  return {
    turns: replies.length,
    pointers: replies.filter((reply) => pointing.test(reply)).length,
    repeats: repeats(talk),
    usersLines: having(usersLinesOf(talk)),
    gated: having(gatedIn(talk)),
    facts: talk.turns.filter((turn) => hasFact(talk, turn)).length,
  }
}

const files = Object.keys(lines)

test.each(files)('twenty turns with %s', (file) => {
  const talk = talks[files.indexOf(file)]
  if (!talk) throw new Error(`no talk with ${file}`)
  const { turns, pointers, repeats, usersLines, gated, facts } = countsOf(talk)
  expect({ turns, usersLines, gated }).toEqual({ turns: 20, usersLines: 0, gated: 0 })
  expect(pointers).toBeLessThanOrEqual(3)
  expect(repeats).toBeLessThanOrEqual(1)
  expect(facts).toBeGreaterThanOrEqual(15)
})

test('the counters find what they count', () => {
  const [fern] = talks
  const rook = talks.find(({ card }) => card.name === 'Rook')
  if (!fern || !rook) throw new Error('no talk')
  const reply =
    'Brief life story? The ninth gate opens to the sound of a bell that has not been cast yet. Ask me about owls.'
  const turn = { line: 'Hm', reply, heard: ['Hm'] }
  const bad = countsOf({ ...rook, turns: [turn, turn] })
  expect(bad).toMatchObject({ pointers: 2, repeats: 1, usersLines: 2, gated: 2 })
  expect(hasFact(fern, { line: 'Hm', reply: 'There you have me.', heard: ['Hm'] })).toBe(false)
})

/** The document: what was counted, and all that was said. */
function documentOf(): string {
  const row = (talk: Talk) => {
    const { pointers, repeats, usersLines, gated, facts } = countsOf(talk)
    return `| ${talk.card.name} | ${pointers} | ${repeats} | ${usersLines} | ${gated} | ${facts} |`
  }
  const shown = (text: string) => text.replace(/\s*\n\s*/g, ' / ')
  const log = ({ card, greeting, turns }: Talk) =>
    `### ${card.name}\n\n${card.name}: ${shown(greeting)}\n\n${turns.map(({ line, reply }) => `- **${line}** ${shown(reply)}`).join('\n')}\n`
  return introduction.replace('ROWS', talks.map(row).join('\n')) + talks.map(log).join('\n')
}

const introduction = readFileSync('test/models/understudy/understudy.introduction.md', 'utf8')

test('docs/understudy.md is what was said', async () => {
  await expect(documentOf()).toMatchFileSnapshot('../../../docs/understudy.md')
})
