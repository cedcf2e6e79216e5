import { describe, expect, test } from 'vitest'
import { readCard } from '../../../src/characters/cards/card.ts'
import { describeCard } from '../../../src/characters/cards/description.ts'
import { emptyNotes, readLorebook } from '../../../src/characters/lore/lorebook.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import { atOnce } from '../../support/composed.ts'
import { assistant, cardOf, cardWithLore, composed, documentOf, firedIn, user } from '../../support/lore-cards.ts'

type Fields = Readonly<Record<string, unknown>>

/** A world file of SillyTavern's with constant entries that say their numbers. */
function worldFile(entries: readonly Fields[]): Fields {
  const list = entries.map((entry, uid) => [uid, { uid, key: [], content: `${uid}`, constant: true, ...entry }])
  return { entries: Object.fromEntries(list) }
}

describe('6.6 world books know whom they are for', () => {
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

  test('6.6 characterFilter: by the names and tags of the card, and by the name it is kept under', () => {
    expect(firedOf('Moss-File')).toEqual(['0', '1', '4', '5', '9', '10', '11', '12', '13'])
  })

  test('6.6 a name without a card has no tags', () => {
    expect(firedOf('Mossy')).toEqual(['3', '4', '7', '9', '10', '13'])
  })

  test("6.6 a filter binds @@activate too, and entries of a card's own book", () => {
    const entries = ['Fern', 'Moss'].map((name) => ({
      content: `@@activate\nFor ${name}`,
      character_filter: { names: [name] },
    }))
    expect(firedIn(composed(cardWithLore(entries), 'Hi'))).toEqual(['For Moss'])
  })

  test('6.6 triggers: a reply, one that is gone on with, and those that look like a reply here', () => {
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

  test('6.6 what is not honoured is told of a world file', () => {
    const notes = emptyNotes()
    atOnce(readLorebook(worldFile([unheard, { vectorized: false, triggers: ['normal', 'continue'] }]), notes))
    expect([...notes.ignored].sort()).toEqual(told.toSorted())
  })

  test('6.6 and of a card, as its upload and `characters check` tell it', () => {
    const { characterFilter, ...extensions } = unheard
    const document = documentOf({
      character_book: { entries: [{ keys: ['a'], content: 'B', extensions, character_filter: characterFilter }] },
    })
    const notes = emptyNotes()
    const summary = atOnce(describeCard(atOnce(readCard(document, notes)), { document, warnings: [] }, notes))
    expect(summary.ignored.toSorted()).toEqual(told.toSorted())
  })
})

describe('6.6 whole words where an entry of SillyTavern does not say', () => {
  const text = 'A tease in the steamy teahouse. 我喝茶吧。 용은 tea喝. 你好'
  const silver = { position: 0, display_index: 3 }
  test.each<[string, string, Fields, boolean]>([
    ['is on for null', 'eas', { ...silver, match_whole_words: null }, false],
    ['is on for nothing', 'house', silver, false],
    ['finds a word', 'steamy', { ...silver, match_whole_words: null }, true],
    ['is off where it says so', 'eas', { ...silver, match_whole_words: false }, true],
    ['is off for entries of other programs', 'eas', { match_whole_words: null }, true],
    ['looks for several words as they stand', 'team y', { ...silver, match_whole_words: true }, false],
    ['looks for several words as they stand', 'he steam', silver, true],
    ['finds a word in a script without blanks', '喝茶', silver, true],
    ['finds a word to which an ending is put', '용', silver, true],
    ['finds a word beside another script', 'tea', silver, true],
  ])('6.6 %s: %s', (_what, key, extensions, expected) => {
    const entry = { keys: [key], extensions }
    expect(firedIn(composed(cardWithLore([entry]), text))).toEqual(expected ? ['LORE0'] : [])
  })

  test('6.6 a card of short keys is silent at neutral questions, and speaks at its own', () => {
    const keys = ['art', 'he', 'ink', 'ear', 'or', 'in a cup', 'all']
    const card = cardWithLore(keys.map((key) => ({ keys: [key], extensions: { ...silver, match_whole_words: null } })))
    const neutral = ['What do you think?', 'Where are we?', 'Tell me a story.', 'Shall we start?', 'Are you there?']
    expect(neutral.map((question) => firedIn(composed(card, question)).length)).toEqual([0, 0, 0, 0, 0])
    expect(firedIn(composed(card, 'Ink? Is it art?'))).toEqual(['LORE0', 'LORE2'])
  })
})
