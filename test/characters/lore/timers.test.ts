import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compose } from '../../../src/characters/prompt/compose.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { fullRequest } from '../../support/composed.ts'
import { assistant, cardWithLore, composed, firedIn, keptOf, user } from '../../support/lore-cards.ts'
import { unitsOf } from '../../support/units.ts'

type Fields = Readonly<Record<string, unknown>>

/** A conversation in which the user says these words; all except the last are answered. */
function talk(words: readonly string[]): readonly Message[] {
  return words.flatMap((word, index) => (index === 0 ? [user(word)] : [assistant(`r${index}`), user(word)]))
}

/** Whether an entry fires at each turn of a conversation (`1`) or not (`.`), with one request for each turn. */
function turnsOf(entry: Fields, words: string, others: readonly Fields[] = [], data: Fields = {}): string {
  const said = words.split(' ')
  const card = cardWithLore([{ keys: ['tea'], content: '@@scan_depth 1\nIT', ...entry }, ...others], {}, data)
  const fires = said.map((_word, index) => firedIn(composed(card, talk(said.slice(0, index + 1)))).includes('IT'))
  return fires.map((isOn) => (isOn ? '1' : '.')).join('')
}

describe('6.6 sticky and cooldown, in messages as SillyTavern counts them', () => {
  test.each<[string, Fields, string, string]>([
    ['without sticky and cooldown, each match fires', {}, 'tea x x tea x', '1..1.'],
    ['sticky 2 ends before the next turn', { sticky: 2 }, 'tea x x', '1..'],
    ['sticky 3 stays on for one turn', { sticky: 3 }, 'tea x x x', '11..'],
    ['sticky may be a text', { sticky: '5' }, 'tea x x x', '111.'],
    ['another match does not extend sticky', { sticky: 5 }, 'tea tea x x x', '111..'],
    ['cooldown 2 is over by the next turn', { cooldown: 2 }, 'tea tea tea', '111'],
    ['cooldown 3 is off for one turn', { cooldown: 3 }, 'tea tea tea tea', '1.1.'],
    ['cooldown 5 is off for two turns', { cooldown: 5 }, 'tea tea tea tea', '1..1'],
    ['cooldown begins when sticky ends', { sticky: 3, cooldown: 3 }, 'tea x tea tea tea', '11..1'],
    ['a cooldown during sticky begins again when sticky ends', { sticky: 5, cooldown: 1 }, 'tea x x tea tea', '111.1'],
    ['null and 0 have no effect', { sticky: null, cooldown: 0 }, 'tea tea x', '11.'],
    ['delay holds back an entry that would stay on', { delay: 3, sticky: 9 }, 'tea x tea x', '..11'],
    [
      'a match before the delay has passed does not make an entry stay on',
      { delay: 3, sticky: 9 },
      'tea x x x',
      '....',
    ],
  ])('6.6 %s', (_what, extensions, words, expected) => {
    expect(turnsOf({ extensions }, words)).toBe(expected)
  })

  test('6.6 a constant entry is off during its cooldown', () => {
    expect(turnsOf({ constant: true, extensions: { cooldown: 3 } }, 'x x x x')).toBe('1.1.')
  })

  test('6.6 secondary keys count at earlier turns, and are not needed while an entry stays on', () => {
    const entry = { selective: true, secondary_keys: ['milk'], extensions: { sticky: 3 } }
    expect(turnsOf(entry, 'tea tea-milk x x')).toBe('.11.')
  })

  test('6.6 a greeting counts as a message; two messages of the user in a row are one turn', () => {
    const card = cardWithLore([{ keys: ['tea'], content: '@@scan_depth 1\nIT', extensions: { cooldown: 3 } }])
    expect(firedIn(composed(card, [assistant('G'), user('tea'), assistant('r'), user('tea')]))).toEqual([])
    expect(firedIn(composed(card, [user('tea'), user('tea')]))).toEqual(['IT'])
  })

  test('6.6 a continued reply has the same lore as its beginning', () => {
    for (const extensions of [{ cooldown: 9 }, { sticky: 1 }]) {
      const card = cardWithLore([{ keys: ['tea'], extensions }])
      expect(firedIn(composed(card, [user('tea'), assistant('And')]))).toEqual(['LORE0'])
    }
  })

  test('6.6 a sticky entry that has fired wins its group, even over an entry that overrides', () => {
    const other = { constant: true, extensions: { group: 'g', group_override: true } }
    const entry = { extensions: { group: 'g', sticky: 5, group_override: true }, insertion_order: 9 }
    expect(turnsOf(entry, 'tea x x x', [other])).toBe('111.')
    expect(turnsOf({ ...entry, insertion_order: -1 }, 'tea x x x', [other])).toBe('....')
  })

  test('6.6 draws of timed entries are the same whenever a turn is replayed', () => {
    const words = Array.from({ length: 30 }, (_none, index) => `tea${index}`).join(' ')
    const once = turnsOf({ extensions: { probability: 30, cooldown: 1 } }, words)
    expect(once).toMatch(/1.*\..*1/)
    // With this cooldown the entry is off for a turn after each firing. At other turns, the draws are the same as in `once`.
    const paused = turnsOf({ extensions: { probability: 30, cooldown: 3 } }, words)
    expect(paused).not.toContain('11')
    expect([...paused].every((mark, index) => mark === '.' || once[index] === '1')).toBe(true)
  })

  test('6.6 entries are on and off as a simple simulation says', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
        fc.nat(8),
        fc.nat(8),
        (matches, sticky, cooldown) => {
          const words = matches.map((isOn) => (isOn ? 'tea' : 'x')).join(' ')
          expect(turnsOf({ extensions: { sticky, cooldown } }, words)).toBe(plainly(matches, sticky, cooldown))
        },
      ),
      { numRuns: 100 },
    )
  })

  test('6.6 the work of a replay grows in proportion to the number of entries', () => {
    const said = talk(Array.from({ length: 100 }, (_none, index) => `word${index} `.repeat(200)))
    const unitsFor = (count: number) => {
      const entries = Array.from({ length: count }, (_none, index) => ({
        keys: [`absent${index}`, `word${index % 100} `],
        extensions: { sticky: 3, scan_depth: 1 + (index % 20), group: `g${index % 7}` },
      }))
      const persona = { name: 'Moss', card: keptOf(cardWithLore(entries)), userName: 'Ada', digest: 'd' }
      return unitsOf(() => compose(fullRequest({ persona, messages: said, settings: { systemPrompt: '' } })))
    }
    expect(unitsFor(2000) / unitsFor(1000)).toBeLessThan(2.5)
  })
})

/** What `turnsOf` must return, by a simple simulation. Turn n, from 0, has 2n + 1 messages. */
function plainly(matches: readonly boolean[], sticky: number, cooldown: number): string {
  let stays = 0
  let silent = 0
  return matches
    .map((isMatch, turn) => {
      const length = 2 * turn + 1
      if (stays > 0 && length >= stays) {
        stays = 0
        if (cooldown > 0) silent = length + cooldown
      }
      if (length >= silent) silent = 0
      const fires = stays > 0 || (isMatch && silent === 0)
      if (fires && sticky > 0 && stays === 0) stays = length + sticky
      if (fires && cooldown > 0 && silent === 0) silent = length + cooldown
      return fires ? '1' : '.'
    })
    .join('')
}

describe('6.6 groups', () => {
  const card = cardWithLore([0, 1, 2].map(() => ({ constant: true, extensions: { group: 'g' } })))
  const said = talk(Array.from({ length: 20 }, (_none, index) => `turn ${index}`))
  const at = (length: number, first = 0) => firedIn(composed(card, said.slice(first, length))).join()

  test('6.6 each turn has its own draw, which is the same for a regenerated or continued reply', () => {
    const turns = Array.from({ length: 20 }, (_none, index) => at(2 * index + 1))
    expect([...new Set(turns)].sort()).toEqual(['LORE0', 'LORE1', 'LORE2'])
    expect(Array.from({ length: 20 }, (_none, index) => at(2 * index + 1))).toEqual(turns)
    expect(Array.from({ length: 19 }, (_none, index) => at(2 * index + 2))).toEqual(turns.slice(0, 19))
  })

  test('6.6 the draw does not change when the oldest messages are left out', () => {
    expect(at(39, 10)).toBe(at(39))
  })
})
