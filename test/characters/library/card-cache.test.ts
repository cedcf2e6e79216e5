import { describe, expect, test, vi } from 'vitest'
import { CardCache, memoryOf } from '../../../src/characters/library/card-cache.ts'
import { TestClock } from '../../support/clock.ts'
import { cardIn } from '../../support/lore-cards.ts'

describe('a card in the cache', () => {
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

  test('is removed half a minute after its last use, if it is large', async () => {
    const clock = new TestClock()
    const cache = new CardCache(1e9, clock)
    const load = vi.fn(async () => ({ card: cardIn({ data: { name: 'Oak' } }), bytes: 2 * 1024 ** 2 }))
    const oak = await cache.get(1, 'oak', load)
    const moss = await cache.get(1, 'moss', async () => ({
      card: cardIn({ data: { name: 'Moss' } }),
      bytes: 1024 ** 2,
    }))
    clock.advance(29_000)
    expect(await cache.get(1, 'oak', load)).toBe(oak)
    clock.advance(29_000)
    expect(await cache.get(1, 'oak', load)).toBe(oak)
    clock.advance(30_000)
    expect(await cache.get(1, 'oak', load)).not.toBe(oak)
    expect(load).toHaveBeenCalledTimes(2)
    expect(await cache.get(1, 'moss', load)).toBe(moss)
  })

  test('is removed from a full cache if it is the least recently used; concurrent requests of an account share one load', async () => {
    const cache = new CardCache(100)
    const load = vi.fn(async () => ({ card: cardIn({ data: { name: 'Moss' } }), bytes: 40 }))
    const [a, again] = await Promise.all([cache.get(1, 'a', load), cache.get(1, 'a', load)])
    expect(again).toBe(a)
    await cache.get(1, 'b', load)
    expect(await cache.get(1, 'a', load)).toBe(a)
    expect(load).toHaveBeenCalledTimes(2)
    await cache.get(1, 'c', load)
    expect(await cache.get(1, 'a', load)).toBe(a)
    expect(load).toHaveBeenCalledTimes(3)
    await cache.get(1, 'b', load)
    expect(load).toHaveBeenCalledTimes(4)
    await cache.get(1, 'huge', async () => ({ card: cardIn({ data: { name: 'Oak' } }), bytes: 1000 }))
    expect(await cache.get(1, 'a', load)).not.toBe(a)
    // Accounts do not share loads.
    const never = async () => new Promise<never>(() => {})
    void cache.get(2, 'e', never)
    expect((await cache.get(1, 'e', load)).name).toBe('Moss')
    const failing = async () => Promise.reject(new Error('gone'))
    await expect(cache.get(1, 'd', failing)).rejects.toThrow('gone')
    expect((await cache.get(1, 'd', load)).name).toBe('Moss')
  })
})
