import { expect, test, vi } from 'vitest'
import { DigestCache } from '../../../src/characters/library/digest-cache.ts'

const never = async () => new Promise<never>(() => {})

test('a full cache drops the value that was not used for the longest time, and the newest stays', async () => {
  const cache = new DigestCache<{ bytes: number }>(100, ({ bytes }) => bytes)
  const load = vi.fn(async () => ({ bytes: 40 }))
  const a = await cache.get(1, 'a', load)
  await cache.get(1, 'b', load)
  expect(await cache.get(1, 'a', load)).toBe(a)
  expect(load).toHaveBeenCalledTimes(2)
  await cache.get(1, 'c', load)
  expect(await cache.get(1, 'a', load)).toBe(a)
  expect(load).toHaveBeenCalledTimes(3)
  await cache.get(1, 'b', load)
  expect(load).toHaveBeenCalledTimes(4)
  const huge = await cache.get(1, 'huge', async () => ({ bytes: 1000 }))
  expect(await cache.get(1, 'huge', never)).toBe(huge)
  expect(await cache.get(1, 'a', load)).not.toBe(a)
})

test('concurrent requests of an account share one load, accounts do not, and a failed load is not kept', async () => {
  const cache = new DigestCache<string>(100, ({ length }) => length)
  const load = vi.fn(async () => 'value')
  expect(await Promise.all([cache.get(1, 'a', load), cache.get(1, 'a', load)])).toEqual(['value', 'value'])
  expect(load).toHaveBeenCalledTimes(1)
  void cache.get(2, 'b', never)
  expect(await cache.get(1, 'b', load)).toBe('value')
  await expect(cache.get(1, 'c', async () => Promise.reject(new Error('gone')))).rejects.toThrow('gone')
  expect(await cache.get(1, 'c', load)).toBe('value')
  expect(cache.add('c', 'other')).toBe('value')
})
