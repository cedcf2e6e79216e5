import { describe, expect, test } from 'vitest'
import { memoryOf } from '../../../src/characters/cards/kept-card.ts'
import { cardIn } from '../../support/lore-cards.ts'

describe('a parsed card in the cache of a thread', () => {
  test('has an estimated size that includes its parsed lore, which is far larger than its file', () => {
    const keys = Array.from({ length: 10 }, (_, index) => `k${index}`)
    const entries = Array.from({ length: 100 }, () => ({ keys, content: 'x', enabled: true }))
    const card = cardIn({ data: { name: 'Oak', character_book: { entries } } })
    expect(memoryOf(card, 8000)).toBeGreaterThan(500_000)
    expect(memoryOf(cardIn({ data: { name: 'Moss' } }), 8000)).toBeLessThan(33_000)
  })

  test('has an estimated size that includes the items of its lists', () => {
    const greetings = Array.from({ length: 10_000 }, () => 'Hi')
    const card = cardIn({ data: { name: 'Oak', alternate_greetings: greetings } })
    expect(memoryOf(card, 0)).toBeGreaterThan(500_000)
    const entries = [{ keys: ['tea'], content: 'x', character_filter: { names: greetings } }]
    const names = cardIn({ data: { name: 'Oak', character_book: { entries } } })
    // At most 1,000 names are read.
    expect(memoryOf(names, 0)).toBeGreaterThan(50_000)
  })
})
