import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonFault, maxJsonNameLength, maxJsonProperties, maxJsonValues, readJson } from '../src/json.ts'
import { anyCharacter } from './support/any-character.ts'
import { often } from './support/often.ts'

const bounds = { depth: 100, duplicates: 'last' } as const

/** The read value, or the fault and its position. */
function outcome(source: string, duplicates: 'refused' | 'last' = 'last'): unknown {
  try {
    return { value: readJson(source, { depth: 100, duplicates }) }
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    return `${error.kind} at ${error.position}`
  }
}

/** Parses a text whose shape JSON.parse caches. After that, JSON.parse misreads other names in texts of the same shape. */
function poison(shape: readonly string[], name: string): void {
  JSON.parse(`{${[...shape, name].map((each) => `${JSON.stringify(each)}:0`).join()}}`)
}

/** A name in one of its possible spellings. */
function spelt(name: string, how: readonly number[]): string {
  const units = [...Array(name.length).keys()].map((index) => {
    const hex = `\\u${name.charCodeAt(index).toString(16).padStart(4, '0')}`
    const plain = JSON.stringify(name[index]).slice(1, -1)
    return [plain, hex, hex.toUpperCase().replace('\\U', '\\u')][how[index % how.length] ?? 0] ?? plain
  })
  return `"${units.join('')}"`
}

describe('readJson', () => {
  it('reads each name correctly, whatever names were parsed before', () => {
    const unit = fc.constantFrom('\\', '\\', '"', '\n', '\t', 'u', 'n', 'a', '0', '\u0001', '开')
    const name = fc.oneof(fc.string({ unit, maxLength: 6 }), fc.constantFrom('__proto__', '0', '12', 'constructor'))
    const member = fc.record({ name, how: fc.array(fc.nat(2), { minLength: 1, maxLength: 6 }) })
    const shape = fc.constantFrom([], ['a'], ['a', 'b'])
    fc.assert(
      fc.property(
        shape,
        fc.array(name, { maxLength: 3 }),
        fc.array(member, { maxLength: 4 }),
        (first, before, members) => {
          for (const other of before) poison(first, other)
          const all = [...first.map((each) => ({ name: each, how: [0] })), ...members]
          const source = `{${all.map((each, value) => `${spelt(each.name, each.how)}:${value}`).join()}}`
          // The expected object is made without a parser.
          const expected = Object.fromEntries(all.map((each, value) => [each.name, value]))
          poison(first, '\\')
          const value = readJson(source, bounds)
          expect(JSON.stringify(value)).toBe(JSON.stringify(expected))
          expect(Object.keys(Object(value))).toStrictEqual(Object.keys(expected))
        },
      ),
      { numRuns: 3000 },
    )
  })

  it('distinguishes a quotation mark from a backslash after an object with a backslash as a name', () => {
    JSON.parse('{"first":null,"\\\\":null}')
    for (const [written, name] of [
      ['\\u0022', '"'],
      ['\\n', '\n'],
      ['\\"', '"'],
      ['\\u0061', 'a'],
      ['\\\\', '\\'],
    ] as const) {
      expect(readJson(`{"first":null,"${written}":1}`, bounds)).toStrictEqual({ first: null, [name]: 1 })
    }
    expect(outcome('{"first":null,"\\"":1,"\\\\":2}', 'refused')).toStrictEqual({
      value: { first: null, '"': 1, '\\': 2 },
    })
  })

  it('leaves out the values of dropped names, and does not count them', () => {
    const drops = new Set(['logprobs'])
    const dropped = fc
      .json({ stringUnit: anyCharacter })
      .map((text) => `{"logprobs":${text},"kept":[{"logprobs":${text}},1]}`)
    fc.assert(
      fc.property(dropped, (text) => {
        expect(readJson(text, { depth: 100, duplicates: 'last', drops })).toEqual({ kept: [{}, 1] })
      }),
      { numRuns: often(200) },
    )
    const many = `[${'1,'.repeat(200_000)}1]`
    const bounds = { depth: 100, duplicates: 'last' as const }
    expect(readJson(`{"logprobs":${many}}`, { ...bounds, drops })).toEqual({})
    expect(() => readJson(`{"logprobs":${many}}`, bounds)).toThrow('count')
  })

  it('refuses the texts that JSON.parse refuses, and reads every text without escapes in names as JSON.parse does', () => {
    const token = fc.constantFrom(
      ...['{', '}', '[', ']', ':', ',', '"a"', '"b"', '"', '\\', ' ', '\n', '\t', '\f', '\u00a0', '\ufeff'],
      ...['1', '0', '-', '-0', '01', '1.5', '.5', '1.', '1e5', '1E+2', 'e', '12345678901234567890', '-1e-999', '1e999'],
      ...['true', 'false', 'null', 'nul', 'truex', 'NaN', '"\\u00e9"', '"\\ud800"', '"\\x"', '"a\u0001b"', '"\\u12"'],
      ...[
        '"a string of more than twelve"',
        '"a longer one with \\"quotes\\" and \\\\"',
        '"__proto__"',
        '"12"',
        '"é开🌵"',
      ],
    )
    const value = fc.json({ stringUnit: anyCharacter, depthSize: 'medium' })
    const nearly = fc.array(token, { maxLength: 12 }).map((tokens) => tokens.join(''))
    const cut = fc.tuple(value, fc.nat(), fc.nat(2), token).map(([text, at, length, other]) => {
      const start = at % (text.length + 1)
      return text.slice(0, start) + other + text.slice(start + length)
    })
    fc.assert(
      fc.property(fc.oneof(nearly, value, cut), fc.constantFrom('', ' '.repeat(5000)), (text, space) => {
        const source = text + space
        let expected: unknown
        try {
          expected = JSON.parse(source)
        } catch {
          expect(outcome(source)).toMatch(/^syntax at \d+$/)
          return
        }
        const read = readJson(source, bounds)
        // Names with escapes are in another test, since JSON.parse may misread them.
        if (!/\\[^"]*"\s*:|\\"/.test(source)) {
          expect(isDeepStrictEqual(read, expected)).toBe(true)
          expect(JSON.stringify(read)).toBe(JSON.stringify(expected))
        }
      }),
      { numRuns: 10_000 },
    )
  })

  it.each([
    ['{"a":1 "b":2}', 7],
    ['{"a":tru}', 5],
    ['{"a":"\\x"}', 7],
    ['{"\\u0061":1,}', 12],
    ['[1,\n2,,3]', 6],
    ['[1', 2],
    ['', 0],
    ['1 2', 2],
    ['"a\nb"', 2],
  ])('says where %j is wrong', (source, position) => {
    expect(outcome(source)).toBe(`syntax at ${position}`)
  })

  it('(x) refuses a fraction that would round to an integer, and reads all other numbers as JSON.parse does', () => {
    const digits = (most: number) => fc.string({ unit: fc.constantFrom(...'0019'), minLength: 1, maxLength: most })
    const parts = fc.tuple(fc.constantFrom('', '-'), digits(18), digits(24), fc.integer({ min: -30, max: 30 }))
    fc.assert(
      fc.property(parts, ([sign, whole, fraction, exponent]) => {
        const integerPart = whole.replace(/^0+(?=.)/, '')
        const literal = `${sign}${integerPart}.${fraction}e${exponent}`
        const value = Number(literal)
        // The exact value times a power of ten that makes it an integer for certain.
        const exact = BigInt(sign + integerPart + fraction) * 10n ** BigInt(exponent + 30)
        const isRounded = Number.isSafeInteger(value) && exact !== BigInt(value) * 10n ** BigInt(fraction.length + 30)
        const read = () => readJson(literal, { depth: 1, duplicates: 'last', roundedIntegers: 'refused' })
        if (isRounded) expect(read).toThrow(JsonFault)
        else expect(read()).toBe(value)
        expect(readJson(literal, bounds)).toBe(value)
      }),
      { numRuns: 5000 },
    )
  })

  it('refuses a repeated property in any spelling, or keeps its last value, as the bounds say', () => {
    for (const source of ['{"a\\n":1,"a\\u000a":2}', '{"__proto__":1,"\\u005f_proto__":2}', '{"7":1,"\\u0037":2}']) {
      expect(outcome(source, 'refused')).toMatch(/^duplicate/)
      const [property, ...more] = Object.entries(Object(readJson(source, bounds)))
      expect([property?.[1], more]).toStrictEqual([2, []])
    }
  })

  it('keeps __proto__ as an ordinary property', () => {
    const value = readJson('{"__proto__":{"admin":true}}', bounds)
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(JSON.stringify(value)).toBe('{"__proto__":{"admin":true}}')
  })

  it('bounds the values of a text, and the properties of an object', () => {
    const list = (length: number) => `[${'0,'.repeat(length - 1)}0]`
    expect(readJson(list(maxJsonValues - 1), bounds)).toHaveLength(maxJsonValues - 1)
    expect(outcome(list(maxJsonValues))).toMatch(/^count/)
    const object = (length: number) => `{${[...Array(length).keys()].map((index) => `"n${index}":0`).join()}}`
    expect(Object.keys(Object(readJson(object(maxJsonProperties), bounds)))).toHaveLength(maxJsonProperties)
    expect(outcome(object(maxJsonProperties + 1))).toMatch(/^count/)
  })

  it('bounds the length of a property name', () => {
    const name = (length: number) => `{"${'n'.repeat(length)}":0}`
    const longest = maxJsonNameLength - 1
    expect(Object.keys(Object(readJson(name(longest), bounds)))).toStrictEqual(['n'.repeat(longest)])
    expect(outcome(name(longest + 2))).toMatch(/^length at 1$/)
    expect(outcome(`{"\\"${'n'.repeat(longest)}":0}`)).toMatch(/^length at 1$/)
  })

  it('reads a long string like JSON.parse', () => {
    const part = fc.constantFrom('a', '\\n', '\\"', '\\\\', '\\u0041', '\\ud83d\\ude00', '😀', 'é', '\ud83d')
    const filling = fc
      .tuple(part, fc.integer({ min: 65_500, max: 65_560 }))
      .map(([each, length]) => each.repeat(Math.ceil(length / each.length)))
    const fault = fc.constantFrom('', '', '', '\n', '\\x', '\\u12', '"', '\\')
    const text = fc
      .tuple(filling, part, fault, filling, fc.constantFrom('"', '"', '"', ''))
      .map((parts) => `"${parts.join('')}`)
    fc.assert(
      fc.property(text, (source) => {
        let expected: unknown
        try {
          expected = { value: JSON.parse(source) }
        } catch {
          expected = expect.stringMatching(/^syntax at \d+$/)
        }
        expect(outcome(source)).toEqual(expected)
      }),
      { numRuns: often(60) },
    )
  })

  it('refuses too many fields of the outermost object only', () => {
    const object = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, 0])))
    const few = { ...bounds, fields: 3 }
    expect(readJson(object(3), few)).toStrictEqual({ f0: 0, f1: 0, f2: 0 })
    expect(readJson(`{"a":${object(4)}}`, few)).toStrictEqual({ a: JSON.parse(object(4)) })
    expect(readJson(`[${object(4)}]`, few)).toHaveLength(1)
    expect(() => readJson(object(4), few)).toThrow('JSON: fields')
    expect(() => readJson(object(20_001), bounds)).toThrow('JSON: count')
  })

  it('names the place of a fault in a long string', () => {
    const before = 'a'.repeat(200_000)
    expect(outcome(`"${before}\n"`)).toBe('syntax at 200001')
    expect(outcome(`["${before}`)).toBe('syntax at 200002')
  })

  it('reports a lone surrogate in a long string, and no pair', () => {
    const loneIn = (middle: string) => {
      let count = 0
      const source = `"${'a'.repeat(65_535)}${middle}${'b'.repeat(65_536)}"`
      readJson(source, { ...bounds, onLoneSurrogate: () => count++ })
      return count
    }
    expect(loneIn('\\ud83d\\ude00')).toBe(0)
    expect(loneIn('\\ud83d')).toBe(1)
  })
})
