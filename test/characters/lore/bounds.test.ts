import { describe, expect, test } from 'vitest'
import type { Message } from '../../../src/openai/completion-request.ts'
import { cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'

type Entry = Readonly<Record<string, unknown>>

/** What fires of these entries when the conversation is this. */
function fired(
  entries: readonly Entry[],
  messages: readonly Message[] | string,
  book: Entry = {},
  data: Entry = {},
  more = {},
) {
  return firedIn(composed(cardWithLore(entries, book, data), messages, more))
}

describe('6.3 recursion', () => {
  const chain = [
    { keys: ['tea'], content: 'a cup' },
    { keys: ['cup'], content: 'a pot' },
    { keys: ['pot'], content: 'POT' },
  ]
  const cases: readonly (readonly [string, readonly (Entry | undefined)[], Entry, readonly string[]])[] = [
    ['entries name others, each fires once', chain, {}, ['a cup', 'a pot', 'POT']],
    ['not where the book says no', chain, { recursive_scanning: false }, ['a cup']],
    [
      'not for those that exclude it',
      [chain[0], { ...chain[1], extensions: { exclude_recursion: true } }],
      {},
      ['a cup'],
    ],
    [
      'not from those that prevent it',
      [{ ...chain[0], extensions: { prevent_recursion: true } }, chain[1]],
      {},
      ['a cup'],
    ],
    [
      'for those that wait for it, once it has begun: in the chat and in lore',
      [
        chain[0],
        { keys: ['tea'], content: 'CHAT', extensions: { delay_until_recursion: true } },
        { keys: ['cup'], content: 'LORE', extensions: { delay_until_recursion: 1 } },
        { constant: true, content: 'ALWAYS', extensions: { delay_until_recursion: true } },
        { keys: ['milk'], content: 'NO', extensions: { delay_until_recursion: true } },
      ],
      {},
      ['a cup', 'CHAT', 'LORE', 'ALWAYS'],
    ],
    [
      'not for those that wait for it where nothing begins it',
      [{ keys: ['tea'], content: 'NO', extensions: { delay_until_recursion: true } }],
      {},
      [],
    ],
    [
      'level by level, each begun where the one before has ended',
      [
        { keys: ['tea'], content: 'TOO LATE', extensions: { delay_until_recursion: 7, group: 'g' } },
        { keys: ['tea'], content: 'FIRST sugar', extensions: { delay_until_recursion: 2, group: 'g' } },
        { keys: ['tea'], content: 'THIRD', extensions: { delay_until_recursion: 9 } },
        { keys: ['sugar'], content: 'SECOND', extensions: { delay_until_recursion: 3 } },
        { keys: ['second'], content: 'LAST' },
      ],
      {},
      ['FIRST sugar', 'THIRD', 'SECOND', 'LAST'],
    ],
    [
      'not for those that wait for it and exclude it',
      [
        chain[0],
        { constant: true, content: 'NO', extensions: { delay_until_recursion: true, exclude_recursion: true } },
      ],
      {},
      ['a cup'],
    ],
    [
      'hidden keys count, comments do not',
      [
        { keys: ['tea'], content: 'A{{hidden_key:cup}}{{// pot}}' },
        ...chain.slice(1, 2).map((entry) => ({ ...entry, content: 'C' })),
        { keys: ['pot'], content: 'P' },
      ],
      {},
      ['A', 'C'],
    ],
    [
      'whatever the scan depth',
      [
        { constant: true, content: 'a cup' },
        { ...chain[1], content: 'C' },
      ],
      { scan_depth: 0 },
      ['a cup', 'C'],
    ],
    [
      'with secondary keys from the chat and lore together',
      [chain[0], { keys: ['cup'], selective: true, secondary_keys: ['tea'], content: 'BOTH' }],
      {},
      ['a cup', 'BOTH'],
    ],
    [
      'failure mode 23: circles end, and each is inserted once',
      [
        { keys: ['tea', 'b'], content: 'a' },
        { keys: ['a'], content: 'b' },
        { keys: ['b'], content: 'tea' },
      ],
      {},
      ['a', 'b', 'tea'],
    ],
  ]
  test.each(cases)('6.3 %s', (_what, entries, book, expected) => {
    expect(
      fired(
        entries.filter((entry) => entry !== undefined),
        'tea',
        book,
      ),
    ).toEqual(expected)
  })

  test('15 a chain of 1,000 ends after 50 passes', () => {
    const entries = Array.from({ length: 1000 }, (_none, index) => ({
      keys: [`k${index}.`],
      content: `k${index + 1}.`,
    }))
    expect(fired(entries, 'k0.').length).toBe(51)
  })
})

describe('6.1 token_budget', () => {
  const count = (text: string) => text.length
  const entries = [
    { constant: true, content: 'aaaa', priority: 3 },
    { constant: true, content: 'bbbb', priority: 1 },
    { constant: true, content: 'cccc', insertion_order: 2 },
    { constant: true, content: '@@ignore_on_max_context\ndddd', priority: 9 },
    { constant: true, content: 'eeee', priority: 1 },
  ]
  test.each([
    [20, ['aaaa', 'bbbb', 'dddd', 'eeee', 'cccc']],
    [16, ['aaaa', 'bbbb', 'eeee', 'cccc']],
    [12, ['aaaa', 'bbbb', 'cccc']],
    [11, ['aaaa', 'cccc']],
    [4, ['aaaa']],
    [3, []],
    [0, ['aaaa', 'bbbb', 'dddd', 'eeee', 'cccc']],
  ])(
    '6.3 of %i tokens, the lowest priority goes first, later ones of equals before earlier',
    (token_budget, expected) => {
      expect(fired(entries, 'x', { token_budget }, {}, { count })).toEqual(expected)
    },
  )

  test('6.1 without one it is a quarter of a known context', () => {
    const result = composed(cardWithLore(entries), 'x', { contextWindow: 36, count: (text) => count(text) / 4 + 1 })
    expect(result.lore.filter(({ dropped }) => dropped === 'budget').length).toBeGreaterThan(0)
    expect(result.dropped.lore).toBe(result.lore.filter(({ dropped }) => dropped).length)
  })
})

describe('15 a hostile book takes bounded time', () => {
  /** Milliseconds of the processor's time: what else the machine does is not counted. */
  const timed = (work: () => void) => {
    const before = process.threadCpuUsage()
    work()
    return process.threadCpuUsage(before).user / 1000
  }
  const long = user('a'.repeat(200_000))

  test('15 failure mode 23: evil regexes', () => {
    const keys = ['/(a+)+$/', '/(a|aa)+b/', '/(a*)*c/', '/(.*)*x$/', '/(a?){50}a{50}b/']
    const card = cardWithLore(Array.from({ length: 100 }, () => ({ keys })))
    expect(timed(() => composed(card, [long]))).toBeLessThan(3000)
  })

  test('15 20,000 entries of 64 keys against a long text, and what was not looked for is told', () => {
    const keys = Array.from({ length: 64 }, (_none, index) => `${'a'.repeat(20)}b${index}`)
    const card = cardWithLore(Array.from({ length: 5000 }, () => ({ keys })))
    const result = { lore: 0 }
    expect(
      timed(() => {
        result.lore = composed(card, [long]).dropped.lore
      }),
    ).toBeLessThan(3000)
    expect(result.lore).toBeGreaterThanOrEqual(0)
  })

  test('15 constants without end stay below the cap, and are told of', () => {
    const card = cardWithLore(Array.from({ length: 300 }, () => ({ constant: true, content: 'x'.repeat(10_000) })))
    const result = composed(card, 'Hi')
    expect(JSON.stringify(result.messages).length).toBeLessThan(1.2 * 1024 ** 2)
    expect(result.dropped.lore).toBeGreaterThan(100)
    expect(result.lore.some(({ dropped }) => dropped === 'limit')).toBe(true)
  })
})
