import { describe, expect, test } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import { keptBook } from '../../support/kept-cards.ts'
import { assistant, cardOf, cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'

type Fields = Readonly<Record<string, unknown>>

const entry = (key: string, content: string, more: Fields = {}): Fields => ({
  ...{ keys: [key], content, enabled: true, insertion_order: 0, extensions: {} },
  ...more,
})

function bookOf(entries: readonly Fields[], more: Fields = {}): Fields {
  return { spec: 'lorebook_v3', data: { entries, extensions: {}, ...more } }
}

/** The contents of the entries of a card's book and of a world book that fire at a message of the user. */
function fired(own: Fields, world: Fields, said: string, more: Parameters<typeof composed>[2] = {}) {
  return firedIn(composed(cardOf({ character_book: own }), said, { ...more, worldBooks: [keptBook(world)] }))
}

describe('6.3 books of one prompt are scanned together', () => {
  const wet = entry('tea', 'It takes water.')
  const rain = entry('water', 'Water is rain.')

  test('6.3 lore of one book fires lore of another book, which fires lore of the first book', () => {
    const own = { entries: [wet, entry('rain', 'Rain falls.')] }
    expect(fired(own, bookOf([rain]), 'tea')).toEqual(['It takes water.', 'Rain falls.', 'Water is rain.'])
  })

  test.each([
    ['does not fire by lore of another book', { entries: [wet] }, [rain], 'tea', ['It takes water.']],
    ['fires no lore of another book', { entries: [rain] }, [wet], 'tea', ['It takes water.']],
    ['fires by the conversation', { entries: [wet] }, [rain], 'water', ['Water is rain.']],
  ])('6.3 a world book without recursion %s', (_what, own, world, said, expected) => {
    expect(fired(own, bookOf(world, { recursive_scanning: false }), said)).toEqual(expected)
  })

  test('6.3 each book has its own scan depth', () => {
    const card = cardWithLore([{ keys: ['tea'], content: 'OWN' }], { scan_depth: 1 })
    const worldBooks = [keptBook(bookOf([entry('tea', 'WORLD')], { scan_depth: 9 }))]
    expect(firedIn(composed(card, [user('tea'), assistant('Hm'), user('So')], { worldBooks }))).toEqual(['WORLD'])
  })

  test('6.3 each book has its own budget', () => {
    const own = { entries: [entry('tea', 'OWN')], token_budget: 2 }
    const world = bookOf([entry('tea', 'WORLD')], { token_budget: 9 })
    expect(fired(own, world, 'tea', { count: (text) => text.length })).toEqual(['WORLD'])
  })

  test('6.3 recursion levels are shared by all books', () => {
    const waiting = (level: number, content: string) =>
      entry('tea', content, { extensions: { delay_until_recursion: level } })
    const own = { entries: [wet, waiting(2, 'TWO'), entry('deeper', 'LAST')] }
    const world = bookOf([waiting(1, 'ONE'), waiting(3, 'deeper')])
    expect(fired(own, world, 'tea')).toEqual(['It takes water.', 'TWO', 'LAST', 'ONE', 'deeper'])
  })

  test('6.6 a group spans all books', () => {
    const of = (content: string, more: Fields = {}) => entry('tea', content, { extensions: { group: 'g', ...more } })
    const world = bookOf([of('WORLD', { group_override: true })])
    expect(fired({ entries: [of('OWN')] }, world, 'tea')).toEqual(['WORLD'])
  })

  test('6.6 a group whose entries have all lost in other groups can still activate an entry in a later pass', () => {
    const own = {
      entries: [
        entry('tea', 'A wins.', { extensions: { group: 'one', group_override: true } }),
        entry('tea', 'LOST', { extensions: { group: 'one, two' } }),
        entry('wins', 'LATER', { extensions: { group: 'two' } }),
      ],
    }
    expect(fired(own, bookOf([]), 'tea')).toEqual(['A wins.', 'LATER'])
  })

  test('6.6 a sticky entry wins its group over entries of other books', () => {
    const sticky = entry('tea', '@@scan_depth 1\nSTICKY', { extensions: { group: 'g', sticky: 5 } })
    const other = entry('milk', '@@scan_depth 1\nOTHER', { extensions: { group: 'g', group_override: true } })
    const card: Card = cardOf({ character_book: { entries: [sticky] } })
    const turns = [user('tea'), assistant('Hm'), user('milk')]
    expect(firedIn(composed(card, turns, { worldBooks: [keptBook(bookOf([other]))] }))).toEqual(['STICKY'])
    // Here the sticky entry lost to an entry of another book at the first turn, so it is not activated at the later turn.
    const against = entry('tea', 'AGAINST', { extensions: { group: 'g', group_override: true } })
    expect(firedIn(composed(card, turns, { worldBooks: [keptBook(bookOf([against], { scan_depth: 1 }))] }))).toEqual([])
  })
})

describe('15 the books of a request', () => {
  test('15 keep the timers of an entry with @@disable_ui_prompt', () => {
    const sticky = (content: string) => entry('tea', `@@scan_depth 1\n${content}`, { extensions: { sticky: 9 } })
    const document = { entries: [sticky('ON'), sticky('@@disable_ui_prompt system_prompt\nON TOO')] }
    const lorebooks = [document]
    const turns = [user('tea'), assistant('Hm'), user('milk')]
    expect(firedIn(composed(cardWithLore([]), turns, { texts: { lorebooks, seesCard: true } }))).toEqual([
      'ON',
      'ON TOO',
    ])
  })

  const card = cardWithLore([{ keys: ['tea'], content: 'The secret door.', extensions: { group: 'g' } }])
  const own = bookOf([
    entry('secret', 'FOUND'),
    entry('tea', 'PUSHED', { extensions: { group: 'g', group_override: true } }),
  ])
  const firedFor = (seesCard: boolean) => firedIn(composed(card, 'tea', { texts: { lorebooks: [own], seesCard } }))

  test('15 neither reveal nor displace the lore of a card that the caller may not read', () => {
    expect(firedFor(false)).toEqual(['The secret door.', 'PUSHED'])
    expect(firedFor(true)).toEqual(['PUSHED'])
  })

  test('15 fire by the lore of a card that the caller may read', () => {
    const plain = cardWithLore([{ keys: ['tea'], content: 'The secret door.' }])
    const of = (seesCard: boolean) => firedIn(composed(plain, 'tea', { texts: { lorebooks: [own], seesCard } }))
    expect(of(false)).toEqual(['The secret door.', 'PUSHED'])
    expect(of(true)).toEqual(['The secret door.', 'FOUND', 'PUSHED'])
  })

  test('15 are reported with their keys, except regular expressions', () => {
    const keyed = bookOf([entry('tea', 'BODY', { keys: ['/t.a/', 'tea', '/(/'] })])
    const { lore } = composed(cardWithLore([]), 'tea', { texts: { lorebooks: [keyed], seesCard: true } })
    expect(lore.map(({ source }) => source)).toEqual([{ name: '', body: 'BODY', keys: ['tea'] }])
  })
})
