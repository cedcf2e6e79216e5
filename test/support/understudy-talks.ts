import { readFileSync } from 'node:fs'
import type { Card } from '../../src/characters/cards/card.ts'
import { readExamples } from '../../src/characters/cards/examples.ts'
import { cardOf } from '../../src/characters/cards/kept-card.ts'
import { keepCardJob } from '../../src/characters/library/jobs.ts'
import * as phrases from '../../src/models/understudy/phrases.ts'
import { stem } from '../../src/models/understudy/stem.ts'
import { wordsOf } from '../../src/models/understudy/words.ts'
import type { Message } from '../../src/openai/completion-request.ts'
import { asking, textOf } from './mallow.ts'

/** One turn of a conversation with the understudy. */
export interface Turn {
  readonly line: string
  readonly reply: string
  /** The user's lines so far, including this one. */
  readonly heard: readonly string[]
  /** The texts of the card's lore that was not activated so far. */
  readonly heldBack: readonly string[]
}

/** A conversation with a card. */
export interface Talk {
  readonly card: Card
  /** All texts of the card. */
  readonly texts: string
  readonly greeting: string
  readonly turns: readonly Turn[]
}

/** Talks with the card of a JSON, PNG or CHARX file. The understudy gets the whole conversation, including the greeting. */
export async function talk(file: string, said: readonly string[]): Promise<Talk> {
  const kept = keepCardJob.run(readFileSync(file))
  const card = cardOf(kept)
  const greeting = (card.greetings[0] ?? '')
    .replaceAll('{{user}}', 'User')
    .replaceAll('{{char}}', card.nickname || card.name)
  const messages: Message[] = [{ role: 'assistant', content: greeting }]
  const turns: Turn[] = []
  const closed = new Map(card.book?.entries.map(({ index, body }) => [index, body]))
  for (const [index, line] of said.entries()) {
    messages.push({ role: 'user', content: line })
    const request = asking(messages, {}, kept, 'User')
    for (const { fired, source } of request.composition.lore) {
      if (fired && typeof source === 'number') closed.delete(source)
    }
    const reply = await textOf(request)
    turns.push({ line, reply, heard: said.slice(0, index + 1), heldBack: [...closed.values()] })
    messages.push({ role: 'assistant', content: reply })
  }
  return { card, texts: textsIn(JSON.parse(Buffer.from(kept.document).toString())).join('\n'), greeting, turns }
}

/** Phrases with which the understudy suggests another question instead of an answer. */
const pointing = /\bask me\b|\bhad you asked\b|\ba thing or two about\b|\blet us talk about\b|\btry me with\b/i

/** The stems of the content words of a text. */
function telling(text: string): ReadonlySet<string> {
  return new Set(wordsOf(text).flatMap(({ text: word, term }) => (term === null ? [] : stem(word.toLowerCase()))))
}

/** The stems of the content words of the understudy's stock phrases. */
const stock = telling(Object.values(phrases).flatMap(textsIn).join('\n'))

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/**
 * Whether a reply has a fact of the card or of the user's earlier lines: a content word that is neither in the user's last line
 * nor in a stock phrase nor in the character's name.
 */
export function hasFact({ card, texts }: Talk, { reply, line, heard }: Turn): boolean {
  const asked = telling(line)
  const names = telling(card.name)
  const known = new Set([...telling(texts), ...telling(heard.slice(0, -1).join('\n'))])
  return [...telling(reply)].some((word) => known.has(word) && !asked.has(word) && !stock.has(word) && !names.has(word))
}

/** The sentences of five words or more. */
function sentencesOf(text: string): readonly string[] {
  return text.split(/(?<=[.!?:])\s+/).filter((sentence) => sentence.split(' ').length >= 5)
}

/** The number of replies with a sentence of an earlier reply or of the greeting. */
function repeats({ greeting, turns }: Talk): number {
  const known = new Set(sentencesOf(greeting))
  return turns.filter(({ reply }) => {
    const sentences = sentencesOf(reply)
    const isRepeat = sentences.some((sentence) => known.has(sentence))
    for (const sentence of sentences) known.add(sentence)
    return isRepeat
  }).length
}

/** Whether a reply has a sentence of lore that was not activated so far. */
function isGated({ reply, heldBack }: Turn): boolean {
  const sentences = heldBack.flatMap((body) => body.split(/(?<=[.!?:])\s+/)).filter(({ length }) => length >= 20)
  return sentences.some((sentence) => reply.toLowerCase().includes(sentence.toLowerCase()))
}

function usersLinesOf({ card }: Talk): readonly string[] {
  const texts = [card.examples, card.description, card.scenario, ...(card.book?.entries ?? []).map(({ body }) => body)]
  const names = { character: card.name, user: '{{user}}', nickname: '{{char}}' }
  return texts
    .flatMap((text) => readExamples(text, names).flat())
    .flatMap(({ speaker, text }) => (speaker === 'user' ? text : []))
}

/** The counts of a conversation. */
export interface Counts {
  readonly turns: number
  readonly pointers: number
  readonly repeats: number
  readonly usersLines: number
  readonly gated: number
  readonly facts: number
}

/** Counts the replies of a conversation as docs/understudy.md explains. */
export function countsOf(talk: Talk): Counts {
  const replies = talk.turns.map(({ reply }) => reply)
  const usersLines = usersLinesOf(talk).map((line) => line.toLowerCase())
  return {
    turns: replies.length,
    pointers: replies.filter((reply) => pointing.test(reply)).length,
    repeats: repeats(talk),
    usersLines: replies.filter((reply) => usersLines.some((line) => reply.toLowerCase().includes(line))).length,
    gated: talk.turns.filter(isGated).length,
    facts: talk.turns.filter((turn) => hasFact(talk, turn)).length,
  }
}

/** The conversation as Markdown. */
export function logOf({ card, greeting, turns }: Talk): string {
  const shown = (text: string) => text.replace(/\s*\n\s*/g, ' / ')
  const said = turns.map(({ line, reply }) => `- **${line}** ${shown(reply)}`)
  return `### ${card.name}\n\n${card.name}: ${shown(greeting)}\n\n${said.join('\n')}\n`
}

/** The counts as a row of a Markdown table. */
export function rowOf(talk: Talk): string {
  const { pointers, repeats, usersLines, gated, facts } = countsOf(talk)
  return `| ${talk.card.name} | ${pointers} | ${repeats} | ${usersLines} | ${gated} | ${facts} |`
}
