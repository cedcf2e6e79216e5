import { bookOf, cardOf, entryOf, loreCard, talk, worldFile } from './cards.ts'
import type { Case } from './case.ts'

const water = talk('Tell me about water.')

/** Cases of world books. */
export function worldCases(): readonly Case[] {
  const file = (...entries: Parameters<typeof worldFile>[0]) => [{ file: worldFile(entries) }]
  const plain = { card: cardOf({}), messages: water }
  const wet = { key: ['water'], content: 'Wet.' }
  const filter = (names: readonly string[], isExclude: boolean) => ({ characterFilter: { names, tags: [], isExclude } })
  return [
    { name: 'a world file', ...plain, worlds: file(wet) },
    {
      name: "a world file beside the character's book",
      card: loreCard([entryOf('water', 'Own.', {}, { insertion_order: 20 })]),
      messages: water,
      worlds: file({ ...wet, order: 10 }, { ...wet, content: 'Last.', order: 30 }),
    },
    {
      name: "a world file that the character's book activates",
      card: loreCard([entryOf('water', 'It comes as rain.', {}, { insertion_order: 2 })]),
      messages: water,
      worlds: file({ key: ['rain'], content: 'Rain.', order: 1 }),
    },
    {
      name: "a world file that activates the character's book, which activates more of the file",
      card: loreCard([entryOf('rain', 'Of clouds.', {}, { insertion_order: 2 })]),
      messages: water,
      worlds: file(
        { ...wet, content: 'It comes as rain.', order: 1 },
        { key: ['clouds'], content: 'They are grey.', order: 3 },
      ),
    },
    {
      name: 'a group in two books',
      card: loreCard([entryOf('water', 'Own.', { group: 'g' })]),
      messages: water,
      worlds: file({ ...wet, group: 'g', groupOverride: true }),
    },
    {
      name: 'levels of recursion in two books',
      card: loreCard([
        entryOf('water', 'Of rain.', {}, { insertion_order: 1 }),
        entryOf('deeper', 'Two.', { delay_until_recursion: 2 }, { insertion_order: 3 }),
      ]),
      messages: water,
      worlds: file({ key: ['rain'], content: 'And deeper.', delayUntilRecursion: true, order: 2 }),
    },
    { name: 'a world file at depth', ...plain, worlds: file({ ...wet, position: 4, depth: 1, role: 1 }) },
    {
      name: 'a world file with secondary keys and groups',
      ...plain,
      worlds: file(
        { ...wet, keysecondary: ['tell'], group: 'g', groupOverride: true, order: 1 },
        { ...wet, content: 'No.', group: 'g', order: 2 },
        { ...wet, content: 'No.', keysecondary: ['moon'], order: 3 },
      ),
    },
    { name: 'an entry for this character', ...plain, worlds: file({ ...wet, ...filter(['Fern'], false) }) },
    { name: 'an entry for another character', ...plain, worlds: file({ ...wet, ...filter(['Mallow'], false) }) },
    { name: 'an entry for all but this character', ...plain, worlds: file({ ...wet, ...filter(['Fern'], true) }) },
    { name: 'an entry for normal answers', ...plain, worlds: file({ ...wet, triggers: ['normal'] }) },
    { name: 'an entry only for continuations', ...plain, worlds: file({ ...wet, triggers: ['continue'] }) },
    { name: 'an entry that is switched off', ...plain, worlds: file({ ...wet, disable: true }) },
    { name: 'a chance of 0', ...plain, worlds: file({ ...wet, probability: 0 }) },
    { name: 'a lorebook in the request', ...plain, worlds: [{ book: bookOf([entryOf('water', 'Wet.')]) }] },
    {
      name: 'two lorebooks in the request',
      ...plain,
      worlds: [
        { book: bookOf([entryOf('water', 'One.', {}, { insertion_order: 1 })]) },
        { book: bookOf([entryOf('water', 'Two.', {}, { insertion_order: 2 })]) },
      ],
    },
  ]
}
