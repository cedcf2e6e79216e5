import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PageCache } from '../../src/plants/page-cache.ts'

/** A page that counts as about a megabyte. */
const page = { text: 'x'.repeat(512 * 1024) }

describe('the cache of pages', () => {
  it('drops all pages of an account when its version changes, and no pages of other accounts', () => {
    const pages = new PageCache()
    pages.set(1, '/plants', 'a', page)
    pages.set(2, '/plants', 'a', page)
    expect([pages.get(1, '/plants', 'a'), pages.get(1, '/plants?limit=1', 'a')]).toEqual([page, undefined])
    pages.set(1, '/plants?limit=1', 'b', page)
    for (const version of ['a', 'b']) expect(pages.get(1, '/plants', version)).toBeUndefined()
    expect(pages.get(2, '/plants', 'a')).toBe(page)
    expect(pages.uses).toEqual({ hits: 2, misses: 3 })
  })

  it('keeps pages that are used again while other pages are replaced, and has at most 64 MB', () => {
    const pages = new PageCache()
    const kept = () => Array.from({ length: 500 }, (_, each) => each).filter((each) => pages.get(1, `${each}`, 'a'))
    pages.set(2, 'first', 'a', page)
    for (let each = 0; each < 500; each++) {
      pages.set(1, `${each}`, 'a', { ...page })
      expect(pages.get(2, 'first', 'a')).toBe(page)
    }
    expect(kept().length).toBeGreaterThan(30)
    expect(kept().length).toBeLessThan(64)
    expect(kept().at(-1)).toBe(499)
  })

  it('does not store a page that leaves no room for other pages', () => {
    const pages = new PageCache()
    pages.set(1, 'all', 'a', { text: page.text.repeat(40) })
    expect(pages.get(1, 'all', 'a')).toBeUndefined()
  })
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
