import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkWellFormed,
  controlCharacters,
  GrowingText,
  type NameRule,
  nameProblem,
  nearest,
  replaceLoneSurrogates,
  withoutControls,
} from '../src/text.ts'

const rule: NameRule = { longest: 5, ifBlank: 'send one', verb: 'send', refused: controlCharacters }
const units = fc.constantFrom(' ', 'a', '🌵', '\u{1f3dc}\ufe0f', '\0', '\t', '\ud83c', 'é')
const text = fc.string({ unit: units, maxLength: 14 })

describe('a name', () => {
  it('must not be blank, malformed, too long, or have refused characters; the first fault is reported', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 12 }), (name, longest) => {
        const faults = [
          [/^\s*$/.test(name), 'is blank; send one'],
          [/\p{Surrogate}/u.test(name), 'has half of a surrogate pair; send whole characters'],
          [/\p{Cc}/u.test(name), 'has control characters; leave them out'],
          [[...name.trim()].length > longest, `is longer than ${longest} characters; shorten it`],
        ] as const
        const [first] = faults.filter(([isSo]) => isSo)
        expect(nameProblem(name, { ...rule, longest })).toBe(first?.[1])
      }),
    )
  })

  it('is measured in code points, also at its maximum length', () => {
    expect(nameProblem('🌵'.repeat(5), rule)).toBeUndefined()
    expect(nameProblem(` ${'🌵'.repeat(5)} `, rule)).toBeUndefined()
    expect(nameProblem('🌵'.repeat(6), rule)).toBe('is longer than 5 characters; shorten it')
    expect(nameProblem('a'.repeat(11), rule)).toBe('is longer than 5 characters; shorten it')
  })

  it('may have another rule, which allows control characters', () => {
    const refused = { pattern: /@/, problem: 'has "@" in it' }
    expect(nameProblem('a@b', { ...rule, refused })).toBe('has "@" in it')
    expect(nameProblem('a\0b', { ...rule, refused })).toBeUndefined()
  })
})

it('a text for a header must be well-formed', () => {
  fc.assert(
    fc.property(text, (name) => {
      const check = () => checkWellFormed('model', name)
      if (name.isWellFormed()) expect(check()).toBeUndefined()
      else expect(check).toThrow('The field "model" has half of a surrogate pair. Send whole characters.')
    }),
  )
})

describe('replaceLoneSurrogates', () => {
  it('leaves no lone surrogate in any text or name, and changes nothing else', () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue({ stringUnit: 'binary' })),
        fc.constantFrom('\ud83c', 'a\udf35', 'whole'),
        (values, text) => {
          const json = { values, [text]: [text, { text }] }
          const whole = JSON.stringify(json).replace(/\\ud[89a-f]../g, '\ufffd')
          replaceLoneSurrogates(json)
          expect(JSON.parse(JSON.stringify(json))).toEqual(JSON.parse(whole))
          expect(JSON.stringify(json)).not.toMatch(/[^\\]\\ud[89a-f]/)
        },
      ),
    )
  })
})

it('replaceLoneSurrogates makes no list of the entries of an array', () => {
  const ownKeys = () => {
    throw new Error('the entries are listed')
  }
  const json = { items: new Proxy(['a\ud83c', 'b'], { ownKeys }) }
  replaceLoneSurrogates(json)
  expect(JSON.stringify(json)).toBe('{"items":["a\ufffd","b"]}')
})

describe('withoutControls', () => {
  it('removes each control character but tabs and line feeds, and mends half characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '\r', '\0', '\x7f', '\t', '\n', '🌵', '\ud83c') }), (text) => {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the simple version
        const expected = text.replace(/[\0-\x08\x0b-\x1f\x7f]/g, '').toWellFormed()
        expect(withoutControls(text)).toBe(expected)
      }),
    )
  })
})

describe('GrowingText', () => {
  it('always has all pieces in order', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: units }), { maxLength: 600 }), fc.nat(600), (pieces, early) => {
        const growing = new GrowingText()
        for (const [index, piece] of pieces.entries()) {
          growing.add(piece)
          if (index === early) expect(growing.toString()).toBe(pieces.slice(0, early + 1).join(''))
        }
        expect(growing.toString()).toBe(pieces.join(''))
      }),
    )
  })
})

describe('nearest', () => {
  const names = ['understudy', 'claude-sonnet', 'Captain Vesper', 'Fern']

  it('finds a name with one typing error, also in another case', () => {
    const mistyped = fc.tuple(fc.constantFrom(...names), fc.nat(), fc.constantFrom('drop', 'add', 'swap'), fc.boolean())
    fc.assert(
      fc.property(mistyped, ([name, place, error, isUpper]) => {
        const at = place % (name.length - 1)
        const [before, one, two, after] = [name.slice(0, at), name[at], name[at + 1], name.slice(at + 2)]
        const typed = {
          drop: `${before}${two}${after}`,
          add: `${before}${one}x${two}${after}`,
          swap: `${before}${two}${one}${after}`,
        }
        expect(nearest(isUpper ? typed[error].toUpperCase() : typed[error], names)).toBe(name)
      }),
    )
  })

  it('finds no name with more than three errors, in more than a third of the letters, or for a long text', () => {
    const others = ['', 'gpt-4', 'Fabian', 'understdyxyz', 'captain vexxxx', `${names.join(' ')} and more`]
    expect(others.map((word) => nearest(word, names))).toStrictEqual(others.map(() => undefined))
  })
})
