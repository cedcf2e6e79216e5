import { describe, expect, test } from 'vitest'
import type { Message } from '../../../src/openai/completion-request.ts'
import { cardWithLore, composed, firedIn, user } from '../../support/lore-cards.ts'

type Entry = Readonly<Record<string, unknown>>

/** The contents of the entries that fire in a conversation. */
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
    ['entries fire other entries by recursion, each entry once', chain, {}, ['a cup', 'a pot', 'POT']],
    ['no recursion with recursive_scanning false', chain, { recursive_scanning: false }, ['a cup']],
    [
      'no recursion into entries with exclude_recursion',
      [chain[0], { ...chain[1], extensions: { exclude_recursion: true } }],
      {},
      ['a cup'],
    ],
    [
      'no recursion from entries with prevent_recursion',
      [{ ...chain[0], extensions: { prevent_recursion: true } }, chain[1]],
      {},
      ['a cup'],
    ],
    [
      'delayed entries match when the recursion has begun, by keys in the chat or in lore',
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
      'delayed entries do not match when no recursion begins',
      [{ keys: ['tea'], content: 'NO', extensions: { delay_until_recursion: true } }],
      {},
      [],
    ],
    [
      'each recursion level begins when the level before has ended',
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
      'delayed entries with exclude_recursion never match',
      [
        chain[0],
        { constant: true, content: 'NO', extensions: { delay_until_recursion: true, exclude_recursion: true } },
      ],
      {},
      ['a cup'],
    ],
    [
      'hidden keys are scanned by the recursion, and comments are not',
      [
        { keys: ['tea'], content: 'A{{hidden_key:cup}}{{// pot}}' },
        ...chain.slice(1, 2).map((entry) => ({ ...entry, content: 'C' })),
        { keys: ['pot'], content: 'P' },
      ],
      {},
      ['A', 'C'],
    ],
    [
      'the recursion does not depend on the scan depth',
      [
        { constant: true, content: 'a cup' },
        { ...chain[1], content: 'C' },
      ],
      { scan_depth: 0 },
      ['a cup', 'C'],
    ],
    [
      'secondary keys may be in the chat when the primary key is in lore',
      [chain[0], { keys: ['cup'], selective: true, secondary_keys: ['tea'], content: 'BOTH' }],
      {},
      ['a cup', 'BOTH'],
    ],
    [
      'circles end, and each entry is inserted once',
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

  test('15 a chain of 1,000 entries ends after 50 passes of the recursion', () => {
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
  ])(
    '6.3 of %i tokens drops the lowest priority first, and the later entry among entries with the same priority',
    (token_budget, expected) => {
      expect(fired(entries, 'x', { token_budget }, {}, { count })).toEqual(expected)
    },
  )

  test('6.1 of 0 tokens drops nothing', () => {
    const all = ['aaaa', 'bbbb', 'dddd', 'eeee', 'cccc']
    expect(fired(entries, 'x', { token_budget: 0 }, {}, { count })).toEqual(all)
  })

  test('6.1 without token_budget the budget is a quarter of a known context window', () => {
    const result = composed(cardWithLore(entries), 'x', { contextWindow: 36, count: (text) => count(text) / 4 + 1 })
    expect(result.lore.filter(({ dropped }) => dropped === 'budget').length).toBeGreaterThan(0)
    expect(result.dropped.lore).toBe(result.lore.filter(({ dropped }) => dropped).length)
  })
})

describe('15 a hostile book takes bounded time', () => {
  /** Milliseconds of CPU time, which do not depend on other load. */
  const timed = (work: () => void) => {
    const before = process.threadCpuUsage()
    work()
    return process.threadCpuUsage(before).user / 1000
  }
  const long = user('a'.repeat(200_000))

  test('15 with regexes that take exponential time in engines with backtracking', () => {
    const keys = ['/(a+)+$/', '/(a|aa)+b/', '/(a*)*c/', '/(.*)*x$/', '/(a?){50}a{50}b/']
    const card = cardWithLore(Array.from({ length: 100 }, () => ({ keys })))
    expect(timed(() => composed(card, [long]))).toBeLessThan(3000)
  })

  test('15 with 1,000 entries of 64 keys, for a long text', () => {
    const keys = Array.from({ length: 64 }, (_none, index) => `${'a'.repeat(20)}b${index}`)
    const card = cardWithLore(Array.from({ length: 1000 }, () => ({ keys })))
    expect(timed(() => composed(card, [long]))).toBeLessThan(3000)
  })

  test('15 with too many constant entries: lore stays below its limit, and the other entries are counted as dropped', () => {
    const card = cardWithLore(Array.from({ length: 300 }, () => ({ constant: true, content: 'x'.repeat(10_000) })))
    const result = composed(card, 'Hi')
    expect(JSON.stringify(result.messages).length).toBeLessThan(1.2 * 1024 ** 2)
    expect(result.dropped.lore).toBeGreaterThan(100)
    expect(result.lore.some(({ dropped }) => dropped === 'limit')).toBe(true)
  })
})
