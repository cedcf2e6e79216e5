import fc from 'fast-check'
import { readCardSource } from '../../src/characters/cards/source.ts'
import { CardError } from '../../src/characters/documents/card-error.ts'
import { anyCharacter } from './any-character.ts'

export const cardOfV1 = {
  name: 'Ada',
  description: 'd',
  personality: '',
  scenario: '',
  first_mes: 'Hi',
  mes_example: '',
}
export const cardOfV2 = { spec: 'chara_card_v2', spec_version: '2.0', data: { ...cardOfV1, extensions: { a: 1 } } }
/** The fields that both V2 and V3 require, besides the fields of V1 and `extensions`. */
export const laterFields = {
  creator_notes: '',
  system_prompt: '',
  post_history_instructions: '',
  alternate_greetings: [],
  tags: [],
  creator: '',
  character_version: '',
}
export const cardOfV3 = {
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: { ...cardOfV1, ...laterFields, group_only_greetings: [], nickname: 'Countess', extensions: { a: { b: null } } },
}

export function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

/** The result of reading a file: the code of its refusal, or `taken`. */
export function outcome(bytes: Buffer): string {
  return refusal(bytes)?.code ?? 'taken'
}

/** The refusal of a file; undefined if the file is read. Any other error is thrown again, because it is a defect. */
export function refusal(bytes: Buffer): CardError | undefined {
  try {
    readCardSource(bytes)
    return undefined
  } catch (error) {
    if (error instanceof CardError) return error
    throw error
  }
}

const names = fc.oneof(
  fc.constantFrom(
    '__proto__',
    'constructor',
    'prototype',
    'extensions',
    'conservatory',
    'conversion',
    'entries',
    'spec',
  ),
  fc.string({ unit: anyCharacter, maxLength: 8 }),
)
const texts = fc.oneof(
  fc.constantFrom(
    'a\r\nb',
    '@@depth 4\r\n@@@role user\n\nLore',
    '@@end',
    '{{char}}',
    '\ud800',
    '\uFEFFx',
    '👩‍🚀 \u0000 ü',
  ),
  fc.string({ unit: anyCharacter, maxLength: 12 }),
)

/** Any JSON value: odd keys as own properties, texts with every kind of line end and lone surrogates, -0. */
export const jsonValues: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, -0, 0, 1e300, Number.POSITIVE_INFINITY, 0.1),
    texts,
    fc.array(tie('value'), { maxLength: 3 }),
    objectsOf(tie('value')),
  ),
})).value

/** Objects as JSON.parse makes them: each key is an own property. */
export function objectsOf(values: fc.Arbitrary<unknown>): fc.Arbitrary<Record<string, unknown>> {
  return fc.array(fc.tuple(names, values), { maxLength: 4 }).map((entries) => Object.fromEntries(entries))
}

/** Fields of a card. Each known field may be missing or have any type, and there may be unknown fields. */
const cardFields = fc
  .tuple(
    fc.record(
      {
        description: jsonValues,
        alternate_greetings: jsonValues,
        creator_notes: fc.oneof(texts, jsonValues),
        group_only_greetings: jsonValues,
        nickname: texts,
        extensions: fc.oneof(
          jsonValues,
          objectsOf(jsonValues),
          fc.record({ conservatory: fc.oneof(jsonValues, fc.record({ conversion: jsonValues })) }),
        ),
        character_book: fc.oneof(
          jsonValues,
          fc.record({
            entries: fc.oneof(
              fc.array(fc.oneof(jsonValues, fc.record({ content: fc.oneof(texts, jsonValues) }))),
              objectsOf(fc.record({ content: texts })),
            ),
          }),
        ),
      },
      { requiredKeys: [] },
    ),
    objectsOf(jsonValues),
  )
  .map(([fields, unknown]) => ({ ...unknown, ...fields, name: 'Ada' }))

/** A card document of this version, with unknown fields at every level. */
export function documents(version: 'v1' | 'v2' | 'v3'): fc.Arbitrary<Record<string, unknown>> {
  const notAtTheRoot = new Set(['spec', 'data', 'entries'])
  if (version === 'v1') {
    return cardFields.map((fields) => ({
      ...Object.fromEntries(Object.entries(fields).filter(([name]) => !notAtTheRoot.has(name))),
      scenario: 'A greenhouse.',
    }))
  }
  const spec = version === 'v2' ? 'chara_card_v2' : 'chara_card_v3'
  return fc
    .tuple(objectsOf(jsonValues), cardFields, fc.constantFrom<unknown>('2.0', '3.0', 3, null))
    .map(([root, data, spec_version]) => ({ ...root, spec, spec_version, data }))
}
