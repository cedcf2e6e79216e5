import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { digestKey, isMistyped, keyPrefix, makeKey } from '../../src/access/key.ts'

const brand = 'cv_'.length
/** A new key for each run. `makeKey` draws its own random bytes, so the number of fast-check is not used. */
const madeKey = fc.nat().map(() => makeKey())
const typeable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code))

describe('a new key', () => {
  it('is cv_ and 38 letters and digits, and is not called mistyped', () => {
    for (let count = 0; count < 500; count++) {
      const key = makeKey()
      expect(key).toMatch(/^cv_[0-9A-Za-z]{38}$/)
      expect(isMistyped(key)).toBe(false)
    }
  })

  it('is never made twice, and may have every character of the alphabet at every random position', () => {
    const keys = Array.from({ length: 3000 }, () => makeKey())
    expect(new Set(keys).size).toBe(keys.length)
    for (let place = brand; place < brand + 32; place++) {
      expect(new Set(keys.map((key) => key[place])).size).toBe(62)
    }
  })

  it('is called mistyped after a change of any one character', () => {
    fc.assert(
      fc.property(madeKey, fc.integer({ min: brand, max: 40 }), typeable, (key, place, character) => {
        fc.pre(key[place] !== character)
        expect(isMistyped(key.slice(0, place) + character + key.slice(place + 1))).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  it('is called mistyped when its end is cut off, or a character is missing or added', () => {
    fc.assert(
      fc.property(madeKey, fc.integer({ min: brand, max: 40 }), typeable, (key, place, character) => {
        expect(isMistyped(key.slice(0, place))).toBe(true)
        expect(isMistyped(key.slice(0, place) + key.slice(place + 1))).toBe(true)
        expect(isMistyped(key.slice(0, place) + character + key.slice(place))).toBe(true)
        expect(isMistyped(key + character)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('is called mistyped when two neighbouring characters are swapped', () => {
    // A swap across the border between the random part and the checksum is found only by chance, so it is left out.
    const place = fc.integer({ min: brand, max: 39 }).filter((index) => index !== brand + 31)
    fc.assert(
      fc.property(madeKey, place, (key, index) => {
        fc.pre(key[index] !== key[index + 1])
        expect(isMistyped(`${key.slice(0, index)}${key[index + 1]}${key[index]}${key.slice(index + 2)}`)).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  it('has a prefix of its first seven characters', () => {
    const key = makeKey()
    expect(keyPrefix(key)).toBe(key.slice(0, 11))
    expect(keyPrefix('an operator’s own key')).toBe('an o')
  })
})

describe('a key that is not ours', () => {
  it('is never called mistyped: it has no checksum', () => {
    const foreign = fc.string({ unit: typeable }).filter((text) => !text.startsWith('cv_'))
    fc.assert(fc.property(foreign, (key) => !isMistyped(key)))
  })
})

it('digests a key with SHA-256', () => {
  // FIPS 180-2, appendix B.1.
  expect(digestKey('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
