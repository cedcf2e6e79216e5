import { type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { textForPattern } from '../../../src/models/understudy/pattern.ts'
import { SchemaTooLargeError } from '../../../src/models/understudy/schema.ts'
import { valueFor } from '../../../src/models/understudy/schema-value.ts'
import { maxUnits, withFuel } from '../../../src/work/fuel.ts'
import { unitsOf } from '../../support/units.ts'

const texts = { next: () => 'Ginger, and a great deal of it.', mentions: () => false }

const limit = fc.double({ min: -1000, max: 1000, noNaN: true })
const number = fc
  .record({ low: limit, room: fc.double({ min: 0.01, max: 1000, noNaN: true }), isExclusive: fc.boolean() })
  .map(({ low, room, isExclusive }) =>
    isExclusive
      ? Type.Number({ exclusiveMinimum: low, exclusiveMaximum: low + room })
      : Type.Number({ minimum: low, maximum: low + room }),
  )
const integer = fc
  .record({ low: fc.integer({ min: -1000, max: 1000 }), step: fc.integer({ min: 1, max: 9 }), isOpen: fc.boolean() })
  .map(({ low, step, isOpen }) =>
    Type.Integer({ multipleOf: step, [isOpen ? 'exclusiveMinimum' : 'minimum']: low, maximum: low + 2 * step }),
  )
const string = fc
  .record({ shortest: fc.nat(60), room: fc.nat(20) })
  .map(({ shortest, room }) => Type.String({ minLength: shortest, maxLength: shortest + room }))
const scalar: fc.Arbitrary<TSchema> = fc.oneof(
  number,
  integer,
  string,
  fc.constantFrom<TSchema>(
    Type.Boolean(),
    Type.Null(),
    Type.String(),
    Type.Literal('only'),
    Type.Unsafe({ ...Type.Union([Type.Literal('a'), Type.Literal(2)]) }),
    Type.String({ default: 'as it was' }),
    Type.String({ pattern: '^[A-Z]{2}-\\d{3,5}$' }),
  ),
)
// TypeBox takes properties that every object inherits, such as `toString`, for properties of the value.
const propertyName = fc.string({ maxLength: 8 }).filter((name) => !(name in {}))
const { schema } = fc.letrec<{ schema: TSchema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc
      .dictionary(propertyName, fc.tuple(tie('schema'), fc.boolean()), { maxKeys: 5 })
      .map((fields) =>
        Type.Object(
          Object.fromEntries(
            Object.entries(fields).map(([name, [field, isOptional]]) => [
              name,
              isOptional ? Type.Optional(field) : field,
            ]),
          ),
          { additionalProperties: false },
        ),
      ),
    fc
      .tuple(tie('schema'), fc.nat(3), fc.nat(3))
      .map(([items, least, room]) => Type.Array(items, { minItems: least, maxItems: least + room })),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((branches) => Type.Union(branches)),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((items) => Type.Tuple(items)),
  ),
}))

describe('valueFor', () => {
  test('fits any schema', () => {
    fc.assert(
      fc.property(schema, (each) => {
        const value: unknown = JSON.parse(JSON.stringify(valueFor(JSON.parse(JSON.stringify(each)), texts)))
        return Value.Check(each, value)
      }),
      { numRuns: 500 },
    )
  })

  test('gives unique numbers within their range, as many as there are', () => {
    const ranges = fc.record({ low: fc.integer({ min: -9, max: 9 }), room: fc.nat(12), isInteger: fc.boolean() })
    fc.assert(
      fc.property(ranges, ({ low, room, isInteger }) => {
        const minItems = isInteger || room === 0 ? (isInteger ? room + 1 : 1) : 2 * room + 3
        const bounds = { minimum: low, maximum: low + room }
        const items = isInteger ? Type.Integer(bounds) : Type.Number(bounds)
        const each = Type.Array(items, { minItems, uniqueItems: true })
        return Value.Check(each, valueFor(JSON.parse(JSON.stringify(each)), texts))
      }),
    )
  })

  test.each<readonly [string, TSchema]>([
    ['objects', Type.Object({ size: Type.Integer(), name: Type.String() })],
    ['objects without required properties', Type.Partial(Type.Object({ name: Type.String() }))],
    ['objects in objects', Type.Object({ inner: Type.Object({ isIn: Type.Boolean(), size: Type.Number() }) })],
    ['arrays', Type.Array(Type.Integer(), { minItems: 2, uniqueItems: true })],
    ['arrays of equal items', Type.Array(Type.String(), { minItems: 1 })],
  ])('gives unique %s', (_name, items) => {
    const each = Type.Array(items, { minItems: 4, uniqueItems: true })
    expect([...Value.Errors(each, valueFor(JSON.parse(JSON.stringify(each)), texts))]).toEqual([])
  })

  test('ends for an array of unique objects whose schema refers to itself', () => {
    const tree = { type: 'object', properties: { next: { $ref: '#/$defs/tree' }, size: { type: 'integer' } } }
    const each = { type: 'array', items: { $ref: '#/$defs/tree' }, minItems: 3, uniqueItems: true, $defs: { tree } }
    expect(valueFor(each, texts)).toEqual([{}, { size: 1 }, { size: 2 }])
  })

  test('joins allOf, resolves references, ends recursion', () => {
    const node = {
      $ref: '#/$defs/node',
      $defs: {
        node: {
          type: 'object',
          properties: {
            next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
            'a/b': { $ref: '#/$defs/a~1b' },
          },
          required: ['next', 'a/b'],
        },
        'a/b': { const: 4 },
      },
    }
    expect(JSON.stringify(valueFor(node, texts))).toContain('{"next":null,"a/b":4}')
    const both = {
      allOf: [
        { type: 'object', properties: { size: { type: 'number', minimum: 2 } }, required: ['size'] },
        {
          properties: { size: { minimum: 5, multipleOf: 3 }, name: { type: 'string', maxLength: 6 } },
          required: ['name'],
        },
      ],
    }
    expect(valueFor(both, texts)).toEqual({ size: 6, name: 'Ginger' })
  })

  test('reads no keyword from a __proto__ that is joined, and no format that objects inherit', () => {
    const inherits: unknown = JSON.parse('{"type":"integer","allOf":[{"__proto__":{"minimum":7}}]}')
    expect(valueFor(inherits, texts)).toBe(0)
    for (const format of ['constructor', 'toString', 'valueOf'])
      expect(valueFor({ type: 'string', format }, texts)).toBe(valueFor({ type: 'string' }, texts))
  })

  test.each([
    [{ type: ['null', 'integer'], minimum: 3 }, 3],
    [{ type: 'integer', exclusiveMaximum: 0 }, -1],
    [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }, 0.5],
    [{ type: 'number', multipleOf: 0.1, minimum: 0.25 }, 0.3],
    [{ type: 'array', items: { type: 'string' }, minItems: 2, uniqueItems: true, maxItems: 2 }, undefined],
    [{ type: 'array', items: { enum: ['a', 'b'] }, minItems: 2, uniqueItems: true }, ['a', 'b']],
    [{ type: 'array', prefixItems: [{ const: 1 }], items: { const: 2 }, minItems: 3 }, [1, 2, 2]],
    [{ type: 'number', allOf: [{ type: 'integer', minimum: 2.5 }] }, 3],
    [{ type: 'integer', allOf: [{ type: 'number', minimum: 2.5 }] }, 3],
    [{ multipleOf: 4, minimum: 1, allOf: [{ multipleOf: 6 }] }, 24],
    [{ $ref: '#/$defs/a%20b', $defs: { 'a b': { const: 7 } } }, 7],
    [{ $ref: '#/$defs/%ff', type: 'integer' }, 0],
    [{ $ref: '#none', type: 'integer' }, 0],
    [{ enum: ['x'], default: 'y' }, 'x'],
    [{ type: 'integer', default: 'no number' }, 0],
    [
      { minProperties: 2, properties: { a: { const: 1 } }, additionalProperties: { const: 2 } },
      { a: 1, property1: 2 },
    ],
    [{ required: ['__proto__'] }, undefined],
    [{ type: 'string', format: 'date' }, '2026-01-01'],
    [{ type: 'string', format: 'date-time' }, '2026-01-01T00:00:00Z'],
    [{ type: 'string', format: 'uuid' }, '00000000-0000-4000-8000-000000000000'],
    [{ type: 'string', format: 'email' }, 'understudy@example.com'],
    [{ type: 'string', format: 'uri' }, 'https://example.com/'],
  ])('makes the expected value for the schema %j', (each, value) => {
    const made = valueFor(each, texts)
    if (value !== undefined) expect(made).toEqual(value)
    if (Array.isArray(made)) expect(new Set(made.map((item) => JSON.stringify(item))).size).toBeGreaterThan(1)
  })

  test('chooses the value that the conversation names', () => {
    expect(valueFor({ enum: ['red', 'green'] }, { ...texts, mentions: (value) => value === 'green' })).toBe('green')
  })

  test('a schema for a huge value is refused without making the value', () => {
    const fields = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']
    const $defs = Object.fromEntries(
      Array.from({ length: 9 }, (_, level) => [
        `level${level}`,
        {
          type: 'object',
          required: fields,
          properties: Object.fromEntries(fields.map((field) => [field, { $ref: `#/$defs/level${level + 1}` }])),
        },
      ]),
    )
    for (const schema of [
      { $ref: '#/$defs/level0', $defs },
      { $ref: '#' },
      { type: 'array', minItems: 1e9 },
      { type: 'object', minProperties: 1e9 },
      { type: 'string', minLength: 1e9 },
    ]) {
      expect(() => valueFor(schema, texts)).toThrow(SchemaTooLargeError)
    }
  })
})

describe('the work of a value', () => {
  const unitsFor = (schema: unknown) => unitsOf(() => valueFor(schema, texts))
  const numbered = (count: number, make: (index: number) => unknown = (index) => `value ${index}`) =>
    Array.from({ length: count }, (_, index) => make(index))
  const named = (count: number, value: unknown) =>
    Object.fromEntries(numbered(count).map((name) => [String(name), value]))

  /** Schemas that grow with a size, or whose values grow with a size. */
  const growing: readonly (readonly [what: string, schema: (size: number) => unknown])[] = [
    ['items', (size) => ({ minItems: size, items: { type: 'integer' } })],
    ['properties', (size) => ({ required: numbered(size), properties: named(size, { type: 'null' }) })],
    ['any properties', (size) => ({ minProperties: size, type: 'object' })],
    ['values of an enum', (size) => ({ enum: numbered(size) })],
    ['enums joined', (size) => ({ enum: numbered(size), allOf: [{ enum: numbered(size).reverse() }] })],
    ['branches', (size) => ({ anyOf: numbered(size, () => ({ type: 'null' })) })],
    ['properties joined', (size) => ({ properties: named(size, {}), allOf: [{ properties: named(size, {}) }] })],
    ['letters of a text', (size) => ({ minLength: 100 * size })],
    ['letters of a constant', (size) => ({ const: 'a'.repeat(100 * size) })],
    ['letters of a pattern', (size) => ({ pattern: 'a'.repeat(size) })],
    ['alternatives', (size) => ({ pattern: 'x|y{9}'.repeat(size) })],
    ['repeats', (size) => ({ pattern: `(ab){${size}}` })],
    ['members of a set', (size) => ({ pattern: `[^${'ab'.repeat(size)}]` })],
    ['a reference', (size) => ({ $ref: `#/${'a'.repeat(10 * size)}` })],
  ]

  test.each(growing)('twice the size takes about twice the work: %s', (_what, schema) => {
    const [half, whole] = [unitsFor(schema(100)), unitsFor(schema(200))]
    expect(whole / half).toBeGreaterThan(1.4)
    expect(whole / half).toBeLessThan(2.2)
  })

  test.each(growing)('too large a schema is refused: %s', (_what, schema) => {
    const items = { minItems: 100_000, items: schema(10) }
    expect(() => withFuel(maxUnits, () => valueFor(items, texts))).toThrow(/too large|budget of units/)
  })

  test.each<[string, unknown]>([
    ['100,000 branches of allOf', { allOf: numbered(100_000, () => ({ type: 'object' })) }],
    ['100,000 properties', { type: 'object', properties: named(100_000, {}), minProperties: 1 }],
    ['a constant of a million letters', { const: 'a'.repeat(1_000_000) }],
    ['a list of 21 types', { type: numbered(21, () => 'null') }],
    ['a list of 21 types in a branch', { required: ['a'], properties: { a: { type: numbered(21) } } }],
    ['a required name of 16,001 letters', { required: ['a'.repeat(16_001)] }],
    ['a required name of 16,001 letters in a branch', { required: ['a'], allOf: [{ required: ['a'.repeat(16_001)] }] }],
  ])('a huge schema is refused before any work: %s', (_what, large) => {
    expect(() => valueFor(large, texts)).toThrow(SchemaTooLargeError)
  })

  const names = numbered(3, (index) => String(index).padStart(16_000, 'a'))
  const joinedNames = { required: names, allOf: numbered(40, () => ({ required: names })) }

  test.each<[string, number, unknown]>([
    ['each letter of a set, and each letter that is tried', 60_000, { pattern: setOf(1500) }],
    ['each letter of a reference', 20_000, { $ref: `#${'/a'.repeat(500)}` }],
    ['each joined property', 200_000, { properties: named(4000, {}), allOf: [{ properties: named(4000, {}) }] }],
    ['64 letters of joined names', 100_000, joinedNames],
    ['each letter of a value that is looked for, folded', 18 * 2000, { enum: ['\ufdfa'.repeat(2000)] }],
  ])('the cost counts %s', (_what, minUnits, schema) => {
    expect(unitsFor(schema)).toBeGreaterThan(minUnits)
  })

  /** A set that no letter of it and no printable ASCII character matches, with this many tests and letters. */
  function setOf(count: number): string {
    const letters = numbered(count, (index) => String.fromCharCode(0x4e00 + index)).join('')
    return `[^${'\\d'.repeat(count)}${letters}\\w ${'!-/:-@[-`{-~'.replace('[', '\\[')}]`
  }

  test('alternatives that are not chosen cost only their letters', () => {
    expect(unitsFor({ pattern: 'x|([a-z]{1000}){9}' })).toBeLessThan(6000)
  })

  test('a large ordinary schema is within the bounds', () => {
    const plant = {
      type: 'object',
      required: ['name', 'latin', 'light', 'height', 'care'],
      properties: {
        name: { type: 'string', minLength: 3, maxLength: 60 },
        latin: { type: 'string', pattern: '^[A-Z][a-z]{2,20} [a-z]{3,20}$' },
        light: { enum: ['shade', 'half shade', 'sun'] },
        height: { type: 'integer', minimum: 1, maximum: 4000 },
        care: { type: 'array', minItems: 3, items: { $ref: '#/$defs/step' } },
      },
    }
    const step = { type: 'object', required: ['what'], properties: { what: { type: 'string', format: 'date' } } }
    expect(unitsFor({ type: 'array', minItems: 100, items: plant, $defs: { step } })).toBeLessThan(2_000_000)
    expect(valueFor({ type: 'array', minItems: 9000, items: { type: 'integer' } }, texts)).toHaveLength(9000)
  })
})

describe('textForPattern', () => {
  test.each([
    '^[A-Z]{2}\\d{4}$',
    '^(?:red|green)-\\w+$',
    '^[^a-z]+$',
    '^\\+?[1-9]\\d{1,14}$',
    '^#(?:[0-9a-fA-F]{3}){1,2}$',
    '^(?<year>\\d{4})-(0[1-9]|1[0-2])$',
    '^[а-я]+$',
    'a.c',
    '^\\S+@\\S+\\.[a-z]{2,}$',
    '^$',
    '^\\[\\d\\.\\]x*?$',
    '^\\p{Lu}\\p{L}+$',
    '^[\\w-]+\\/[^\\]]$',
  ])('makes texts that match %s', (pattern) => {
    for (const variant of [0, 1, 5]) {
      expect(textForPattern(pattern, 0, variant)).toMatch(new RegExp(pattern, 'u'))
      expect(textForPattern(pattern, 12, variant)).toMatch(new RegExp(pattern, 'u'))
    }
  })

  test('fills up to the minimum length if repeats allow it', () => {
    expect(textForPattern('^[a-z]+$', 20, 0)).toHaveLength(20)
  })

  test.each(['(?=a)b', '(a)\\1', '(((((', '[', '*', 'a{99999999}', '('.repeat(200), '((a{1000}){1000}){1000}'])(
    'does not support %s',
    (pattern) => {
      expect(textForPattern(pattern, 5, 0)).toBeUndefined()
    },
  )
})
