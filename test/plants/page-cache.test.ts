import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PageCache } from '../../src/plants/page-cache.ts'

/** A page that counts as about a megabyte. */
const page = { text: 'x'.repeat(512 * 1024) }

it('keeps pages that are used again while other pages are replaced, and has at most 64 MB', () => {
  const pages = new PageCache()
  const kept = () => Array.from({ length: 500 }, (_, each) => each).filter((each) => pages.get(1, `${each}`, 'a'))
  pages.set(2, 'first', 'a', page)
  for (let each = 0; each < 500; each++) {
    pages.set(1, `${each}`, 'a', { ...page })
    expect(pages.get(2, 'first', 'a')).toBe(page)
  }
  const found = kept()
  expect(found.length).toBeGreaterThan(30)
  expect(found.length).toBeLessThan(64)
  expect(found.at(-1)).toBe(499)
  expect(pages.uses).toEqual({ hits: 500 + found.length, misses: 500 - found.length })
})

it('counts a page that is replaced only once', () => {
  const pages = new PageCache()
  pages.set(1, 'other', 'a', page)
  for (let version = 0; version < 100; version++) pages.set(1, '/plants', `${version}`, page)
  expect([pages.get(1, 'other', 'a'), pages.get(1, '/plants', '98'), pages.get(1, '/plants', '99')]).toEqual([
    page,
    undefined,
    page,
  ])
})

it('the cache gives the page that was set last for an account, a URL and a version, or no page', () => {
  const question = fc.tuple(fc.integer({ min: 1, max: 2 }), fc.constantFrom('a', 'b'), fc.constantFrom('1', '2'))
  fc.assert(
    fc.property(fc.array(fc.tuple(question, fc.boolean())), (steps) => {
      const pages = new PageCache()
      const set = new Map<string, string>()
      for (const [index, [[account, path, version], isSet]] of steps.entries()) {
        const key = `${account} ${path} ${version}`
        if (isSet) {
          set.set(key, `${index}`)
          pages.set(account, path, version, { text: `${index}` })
        } else {
          const found = pages.get(account, path, version)
          if (found) expect(found.text).toBe(set.get(key))
        }
      }
    }),
  )
})
