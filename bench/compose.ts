import type { KeptCard } from '../src/characters/cards/kept-card.ts'
import { compose } from '../src/characters/prompt/compose.ts'
import type { Message } from '../src/openai/completion-request.ts'
import { maxUnits, withFuel } from '../src/work/fuel.ts'
import { atMost, type Figure, median } from './measure.ts'

/*
 * The time to compose a prompt from a card with many lore entries and a conversation of 201 messages. Ten entries are constant,
 * so that the scanned text is the same for all numbers of entries.
 * Targets: 1,000 entries take at most 5 ms at the median; 10,000 entries take at most 12 times as long as 1,000.
 */

const words = 'amber birch copper dune ember frost grove harbour indigo jasper kelp lantern meadow north opal'.split(
  ' ',
)
const word = (index: number) => words[index % words.length] ?? ''

/** The JSON document of a card with this number of lore entries. */
export function loreCard(entries: number) {
  return {
    spec: 'chara_card_v3',
    data: {
      name: 'Moss',
      description: '{{char}} keeps a tea house. '.repeat(40),
      first_mes: 'Come in, {{user}}.',
      character_book: {
        entries: Array.from({ length: entries }, (_none, index) => ({
          keys: [`${word(index)} ${index}`, `${word(index * 7)}-${index}`, `place ${index}`],
          content: `About ${word(index)} ${index}: {{char}} knows it, and {{user}} does not. `.repeat(4),
          constant: index % (entries / 10) === 0,
          insertion_order: index % 17,
          ...(index % 50 === 1 ? { extensions: { position: 4, depth: index % 9, scan_depth: 20 } } : {}),
        })),
      },
    },
  }
}

function cardWith(entries: number): KeptCard {
  return { digest: String(entries), document: Buffer.from(JSON.stringify(loreCard(entries))), isHeavy: true }
}

/** A conversation of 200 messages, in which some of the entries' keys occur. */
export const conversation: readonly Message[] = Array.from({ length: 200 }, (_none, index) => ({
  role: index % 2 === 0 ? 'user' : 'assistant',
  content:
    `Message ${index}: we walked by ${word(index)} ${index * 3} and on to place ${index}, talking of tea. `.repeat(3),
}))

/** Composes prompts with three sizes of lorebook. */
export async function benchCompose(): Promise<readonly Figure[]> {
  const rows: Record<string, unknown>[] = []
  const middles: number[] = []
  for (const [entries, messages] of [
    [100, conversation],
    [1000, conversation],
    [10_000, conversation],
  ] as const) {
    const card = cardWith(entries)
    const settings = { systemPrompt: 'Play {{char}}.' }
    const persona = { name: 'Moss', card, userName: 'Ada' }
    const times: number[] = []
    for (let round = 0; round < 300; round++) {
      // The newest message differs each time, as in real conversations.
      const said = [
        ...messages,
        { role: 'user' as const, content: `Is place ${round % entries} far, or ${word(round)} ${round}?` },
      ]
      const start = performance.now()
      withFuel(maxUnits, () =>
        compose({ persona, messages: said, settings, randomSeed: String(round), now: new Date() }),
      )
      times.push(performance.now() - start)
    }
    const middle = median(times.slice(50))
    middles.push(middle)
    rows.push({
      entries,
      messages: 201,
      'median, ms': Math.round(middle * 1000) / 1000,
      'µs per entry': Math.round((middle / entries) * 1e6) / 1000,
    })
  }
  console.table(rows)
  const [hundred = Number.NaN, thousand = Number.NaN, tenThousand = Number.NaN] = middles
  return [
    atMost('compose: 1,000 entries and 201 messages', 5, thousand, ' ms'),
    // The conversation has a constant cost, so only the step from 1,000 to 10,000 entries shows the cost of entries.
    atMost(
      `compose: time of 10,000 entries to 1,000 (1,000 to 100: ${(thousand / hundred).toFixed(1)})`,
      12,
      tenThousand / thousand,
      ' times',
    ),
  ]
}
