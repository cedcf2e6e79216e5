import { type Fields, isFields, valueIn } from '../../fields.ts'

/** The specification of a card. An `other` card has its fields in `data`, but no known `spec`. It is read as V3. */
export type CardVersion = 'v1' | 'v2' | 'v3' | 'other'

/** The required values of `spec` and `spec_version` (V2, "spec" and "spec_version"; V3, "CharacterCard Object"). */
export const specs = {
  v2: { spec: 'chara_card_v2', spec_version: '2.0' },
  v3: { spec: 'chara_card_v3', spec_version: '3.0' },
} as const

/** Pygmalion's names of the fields of V1. */
export const pygmalionNames = {
  name: 'char_name',
  description: 'char_persona',
  scenario: 'world_scenario',
  first_mes: 'char_greeting',
  mes_example: 'example_dialogue',
} as const

/** Root fields that identify a V1 card. A `name` identifies a V1 card only without `entries`: lorebooks have a name too. */
const fieldsOfV1 = ['first_mes', 'mes_example', 'personality', 'scenario', ...Object.values(pygmalionNames)]

/** The version of a card, by its fields; undefined for other documents, such as lorebooks. */
export function cardVersion(document: Fields): CardVersion | undefined {
  const spec = valueIn(document, 'spec')
  const data = valueIn(document, 'data')
  if (spec === 'lorebook_v3') return undefined
  if (isFields(data)) {
    if (spec === specs.v3.spec) return 'v3'
    if (spec === specs.v2.spec) return 'v2'
    if (typeof valueIn(data, 'name') === 'string') return 'other'
  }
  return hasFieldsOfV1(document) ? 'v1' : undefined
}

function hasFieldsOfV1(document: Fields): boolean {
  const isText = (name: string) => typeof valueIn(document, name) === 'string'
  return fieldsOfV1.some(isText) || (isText('name') && !Object.hasOwn(document, 'entries'))
}

/** The most characters of `spec_version` that are read: reading 16 million digits takes 60 ms. */
const maxVersionLength = 100

/** Warnings about a card's version, one sentence each. */
export function versionWarnings(document: Fields): readonly string[] {
  const written = valueIn(document, 'spec_version')
  const isWritten = typeof written === 'string' || typeof written === 'number'
  const version = isWritten ? Number.parseFloat(String(written).slice(0, maxVersionLength)) : 0
  return [
    ...(version > 3 ? ['The card follows a later specification than 3.0; its new fields are kept, but not used.'] : []),
    ...(cardVersion(document) === 'other' ? ['The card names no known specification; it was read as V3.'] : []),
  ]
}
