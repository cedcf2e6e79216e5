import { describe, expect, test } from 'vitest'
import { readCard } from '../../../src/characters/cards/card.ts'
import { describeCard } from '../../../src/characters/cards/description.ts'
import { emptyNotes, readLorebook } from '../../../src/characters/lore/lorebook.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { documentOf, keptBook } from '../../support/kept-cards.ts'
import { assistant, cardOf, cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'

type Fields = Readonly<Record<string, unknown>>

/** A world file of SillyTavern with constant entries; each entry's content is its number. */
function worldFile(entries: readonly Fields[]): Fields {
  const list = entries.map((entry, uid) => [uid, { uid, key: [], content: `${uid}`, constant: true, ...entry }])
  return { entries: Object.fromEntries(list) }
}

describe('6.6 entries for some characters or replies', () => {
  const filters: readonly Fields[] = [
    { names: ['Moss'] },
    { names: ['fern', ' MOSS '] },
    { names: ['Fern'] },
    { names: ['Moss'], isExclude: true },
    { names: ['Fern'], isExclude: true },
    { tags: ['Plant'] },
    { tags: ['stone'] },
    { tags: ['plant'], isExclude: true },
    { names: ['Moss'], tags: ['stone'] },
    { names: [], tags: [] },
    { tags: ['1f0e3dad-9996-4a1c-8c2e-2b0f3a6a7b11'] },
    { names: ['Mo'] },
    { names: ['moss-file'] },
  ]
  const world = worldFile([...filters.map((characterFilter) => ({ characterFilter })), { characterFilter: null }])
  const card = cardOf({ nickname: 'Mo', tags: ['plant', 'green'] })
  const firedOf = (name: string | null, messages: readonly Message[] = [user('Hi')], book = world) =>
    firedIn(composed(name === 'Mossy' ? null : card, messages, { name, worldBooks: [keptBook(book)] }))

  test('6.6 characterFilter is compared with the names and tags of the card, and with the name in the library', () => {
    expect(firedOf('Moss-File')).toEqual(['0', '1', '4', '5', '9', '10', '11', '12', '13'])
  })

  test('6.6 a character without a card has a name and no tags', () => {
    expect(firedOf('Mossy')).toEqual(['3', '4', '7', '9', '10', '13'])
  })

  test("6.6 a filter applies to entries with @@activate too, and to entries of the card's own book", () => {
    const entries = ['Fern', 'Moss'].map((name) => ({
      content: `@@activate\nFor ${name}`,
      character_filter: { names: [name] },
    }))
    expect(firedIn(composed(cardWithLore(entries), 'Hi'))).toEqual(['For Moss'])
  })

  test('6.6 triggers select entries for normal and for continued replies; other triggers never fire', () => {
    const book = worldFile([
      { triggers: ['normal'] },
      { triggers: ['continue'] },
      { triggers: ['swipe', 'quiet'] },
      { triggers: ['normal', 'continue'] },
      { triggers: [] },
    ])
    expect(firedOf('Moss', [user('Hi')], book)).toEqual(['0', '3', '4'])
    expect(firedOf('Moss', [user('Hi'), assistant('We')], book)).toEqual(['1', '3', '4'])
  })

  const unheard = { vectorized: true, triggers: ['swipe'], characterFilter: { tags: ['1699999999999'] } }
  const told = [
    'character_book.entries[].extensions.vectorized',
    'character_book.entries[].extensions.triggers swipe',
    'character_book.entries[].character_filter.tags by their ids',
  ]

  test('6.6 readLorebook notes the ignored fields of a world file', () => {
    const notes = emptyNotes()
    readLorebook(worldFile([unheard, { vectorized: false, triggers: ['normal', 'continue'] }]), notes)
    expect([...notes.ignored].sort()).toEqual(told.toSorted())
  })

  test('6.6 the summary of a card names the ignored fields of its book', () => {
    const { characterFilter, ...extensions } = unheard
    const document = documentOf({
      character_book: { entries: [{ keys: ['a'], content: 'B', extensions, character_filter: characterFilter }] },
    })
    const notes = emptyNotes()
    const summary = describeCard(readCard(document, notes), { document, warnings: [] }, notes)
    expect(summary.ignored.toSorted()).toEqual(told.toSorted())
  })
})

describe('6.6 whole words in entries of SillyTavern', () => {
  const text = 'A tease in the steamy teahouse. 我喝茶吧。 용은 tea喝. 你好'
  const fromSillyTavern = { position: 0, display_index: 3 }
  test.each<[string, string, Fields, boolean]>([
    ['are needed if match_whole_words is null', 'eas', { ...fromSillyTavern, match_whole_words: null }, false],
    ['are needed if match_whole_words is missing', 'house', fromSillyTavern, false],
    ['match', 'steamy', { ...fromSillyTavern, match_whole_words: null }, true],
    ['are not needed if match_whole_words is false', 'eas', { ...fromSillyTavern, match_whole_words: false }, true],
    ['are not needed in entries of other programs', 'eas', { match_whole_words: null }, true],
    [
      'do not matter for a key of several words, which must occur',
      'team y',
      { ...fromSillyTavern, match_whole_words: true },
      false,
    ],
    ['do not matter for a key of several words', 'he steam', fromSillyTavern, true],
    ['are not needed in a script without spaces', '喝茶', fromSillyTavern, true],
    ['are not needed in Korean, whose words have endings', '용', fromSillyTavern, true],
    ['may begin next to a script without spaces', 'tea', fromSillyTavern, true],
  ])('6.6 %s: %s', (_what, key, extensions, expected) => {
    const entry = { keys: [key], extensions }
    expect(firedIn(composed(cardWithLore([entry]), text))).toEqual(expected ? ['LORE0'] : [])
  })

  test('6.6 short keys fire as whole words, and not inside the words of unrelated questions', () => {
    const keys = ['art', 'he', 'ink', 'ear', 'or', 'in a cup', 'all']
    const card = cardWithLore(
      keys.map((key) => ({ keys: [key], extensions: { ...fromSillyTavern, match_whole_words: null } })),
    )
    const neutral = ['What do you think?', 'Where are we?', 'Tell me a story.', 'Shall we start?', 'Are you there?']
    expect(neutral.map((question) => firedIn(composed(card, question)).length)).toEqual([0, 0, 0, 0, 0])
    expect(firedIn(composed(card, 'Ink? Is it art?'))).toEqual(['LORE0', 'LORE2'])
  })
})
