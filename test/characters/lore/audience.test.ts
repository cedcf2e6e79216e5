import { describe, expect, test } from 'vitest'
import { readCard } from '../../../src/characters/cards/card.ts'
import { describeCard } from '../../../src/characters/cards/description.ts'
import { emptyNotes, readLorebook } from '../../../src/characters/lore/lorebook.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { atOnce } from '../../support/composed.ts'
import { assistant, cardOf, cardWithLore, composed, documentOf, firedIn, user } from '../../support/lore-cards.ts'

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
    firedIn(composed(name === 'Mossy' ? null : card, messages, { name, worldBooks: [atOnce(readLorebook(book))] }))

  test('6.6 characterFilter goes by the names and tags of the card, and by the name in the library', () => {
    expect(firedOf('Moss-File')).toEqual(['0', '1', '4', '5', '9', '10', '11', '12', '13'])
  })

  test('6.6 a name without a card has no tags', () => {
    expect(firedOf('Mossy')).toEqual(['3', '4', '7', '9', '10', '13'])
  })

  test("6.6 a filter also holds for @@activate, and for entries of a card's own book", () => {
    const entries = ['Fern', 'Moss'].map((name) => ({
      content: `@@activate\nFor ${name}`,
      character_filter: { names: [name] },
    }))
    expect(firedIn(composed(cardWithLore(entries), 'Hi'))).toEqual(['For Moss'])
  })

  test('6.6 triggers: a normal reply, a continued reply, and kinds that a service cannot tell from these', () => {
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

  test('6.6 the notes name the ignored fields of a world file', () => {
    const notes = emptyNotes()
    atOnce(readLorebook(worldFile([unheard, { vectorized: false, triggers: ['normal', 'continue'] }]), notes))
    expect([...notes.ignored].sort()).toEqual(told.toSorted())
  })

  test('6.6 the summary of a card names the ignored fields of its book', () => {
    const { characterFilter, ...extensions } = unheard
    const document = documentOf({
      character_book: { entries: [{ keys: ['a'], content: 'B', extensions, character_filter: characterFilter }] },
    })
    const notes = emptyNotes()
    const summary = atOnce(describeCard(atOnce(readCard(document, notes)), { document, warnings: [] }, notes))
    expect(summary.ignored.toSorted()).toEqual(told.toSorted())
  })
})

describe('6.6 whole words in entries of SillyTavern without a value', () => {
  const text = 'A tease in the steamy teahouse. 我喝茶吧。 용은 tea喝. 你好'
  const silver = { position: 0, display_index: 3 }
  test.each<[string, string, Fields, boolean]>([
    ['match only, for null', 'eas', { ...silver, match_whole_words: null }, false],
    ['match only, for a missing value', 'house', silver, false],
    ['match', 'steamy', { ...silver, match_whole_words: null }, true],
    ['may be switched off', 'eas', { ...silver, match_whole_words: false }, true],
    ['are off for entries of other programs', 'eas', { match_whole_words: null }, true],
    ['do not restrict a key of several words', 'team y', { ...silver, match_whole_words: true }, false],
    ['do not restrict a key of several words', 'he steam', silver, true],
    ['match in a script without spaces', '喝茶', silver, true],
    ['match with an ending, in such a script', '용', silver, true],
    ['match next to another script', 'tea', silver, true],
  ])('6.6 %s: %s', (_what, key, extensions, expected) => {
    const entry = { keys: [key], extensions }
    expect(firedIn(composed(cardWithLore([entry]), text))).toEqual(expected ? ['LORE0'] : [])
  })

  test('6.6 short keys do not fire inside the words of neutral questions, and fire as words', () => {
    const keys = ['art', 'he', 'ink', 'ear', 'or', 'in a cup', 'all']
    const card = cardWithLore(keys.map((key) => ({ keys: [key], extensions: { ...silver, match_whole_words: null } })))
    const neutral = ['What do you think?', 'Where are we?', 'Tell me a story.', 'Shall we start?', 'Are you there?']
    expect(neutral.map((question) => firedIn(composed(card, question)).length)).toEqual([0, 0, 0, 0, 0])
    expect(firedIn(composed(card, 'Ink? Is it art?'))).toEqual(['LORE0', 'LORE2'])
  })
})
