import fc from 'fast-check'
import { RE2JS } from 're2js'
import { describe, expect, it } from 'vitest'
import { readEntry } from '../../../src/characters/lore/entry.ts'
import { readKey } from '../../../src/characters/lore/keys.ts'
import { emptyNotes } from '../../../src/characters/lore/lorebook.ts'
import { LorePattern } from '../../../src/characters/lore/pattern.ts'
import { unitsOf } from '../../support/units.ts'

/** Bytes of the DFA states that RE2JS keeps for a pattern, as RE2JS counts them. */
function stateBytes(compiled: RE2JS): number {
  const { dfa } = compiled.re2()
  return dfa.stateBudget - dfa.memBudget
}

/** A text of pseudo-random letters. For the pattern `manyStates`, RE2JS makes a new DFA state at nearly each of them. */
function letters(count: number): string {
  let state = 1
  let text = ''
  for (let index = 0; index < count; index++) {
    state = (state * 48271) % 2147483647
    text += state & 64 ? 'a' : 'b'
  }
  return text
}

/** A pattern with a small program, for which nearly each character needs a new DFA state. */
const manyStates = '(a|b)*a(a|b){40}[^a-c]'

describe('a pattern of a lorebook', () => {
  const atoms = [
    'a',
    'b',
    '\\b',
    '\\B',
    '^',
    '$',
    '.',
    '\\n',
    '\\w+',
    'é',
    '🌱',
    '[^a]',
    'a*',
    '(?:a|bb)',
    '(b|)?',
    'b{2,3}',
    '|',
    '\\W',
  ]
  const letter = fc.constantFrom('a', 'b', '\n', ' ', 'é', '🌱', '\ud83c', '\udf31', '_', 'K')
  const flags = RE2JS.CASE_INSENSITIVE | RE2JS.MULTILINE | RE2JS.DOTALL

  it('is found exactly if RE2JS finds it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...atoms), { minLength: 1, maxLength: 8 }).map((parts) => parts.join('')),
        fc.array(letter, { minLength: 1, maxLength: 12 }).map((letters) => letters.join('')),
        fc.nat(flags),
        (written, text, bits) => {
          const compiled = RE2JS.compile(written, bits & flags)
          const expected = compiled.test(text)
          expect(new LorePattern(() => RE2JS.compile(written, bits & flags)).search(text)).toBe(expected)
        },
      ),
      { numRuns: 2000 },
    )
  })

  it.each([
    ['/\\b(dragon|wyrm)s?\\b/i', 'The WYRMS sleep', true],
    ['/\\b(dragon|wyrm)s?\\b/i', 'wyrmling', false],
    ['/^the end$/m', `${'a line\n'.repeat(9000)}the end`, true],
    ['/^the end$/', `${'a line\n'.repeat(9000)}the end`, false],
    ['/fern.{0,30}garden/s', `${'fern '.repeat(9000)}\n garden`, true],
    ['/dragon/', `${'🌱'.repeat(9000)}dragon`, true],
    ['/(?:)/', 'a', true],
  ])('has the expected result in short and long texts: %s', (written, text, expected) => {
    const key = readKey(written, true, emptyNotes().patterns)
    expect(key?.pattern?.search(text)).toBe(expected)
  })

  it('keeps few DFA states after any text, and finds what a pattern without bounds finds', () => {
    const plain = RE2JS.compile(manyStates)
    const compiled = RE2JS.compile(manyStates)
    const pattern = new LorePattern(() => compiled)
    for (const text of [letters(4000), `${letters(4000)}d`, 'd']) expect(pattern.search(text)).toBe(plain.test(text))
    expect(stateBytes(plain)).toBeGreaterThan(1024 ** 2)
    expect(stateBytes(compiled)).toBeLessThanOrEqual(pattern.bytes)
  })

  it('keeps its DFA states if it is ordinary, so that the next text costs less', () => {
    const compiled = RE2JS.compile('\\b(fern|moss)s?\\b.*\\bgarden')
    const pattern = new LorePattern(() => compiled)
    expect(pattern.search('a fern in the garden')).toBe(true)
    expect(stateBytes(compiled)).toBeGreaterThan(0)
  })

  it.each([
    ['[k-豈]'.repeat(30), 'i'],
    ['(?i)[k-豈]'.repeat(30), ''],
    [`[${'k-豈'.repeat(30)}]`, 'i'],
    ['[k-\\u8c48]'.repeat(30), 'i'],
    ['[k-\\u{10ffff}]'.repeat(30), 'i'],
    ['[\\xfffa-豈]'.repeat(30), 'i'],
    ['[\\\\k-豈]'.repeat(30), 'i'],
    ['\\pL'.repeat(150), ''],
    ['\\P{L}'.repeat(150), 'i'],
  ])('is refused if its character classes take long to compile: %s with the flags "%s"', (pattern, flags) => {
    const { patterns } = emptyNotes()
    expect(readKey(`/${pattern}/${flags}`, true, patterns)?.pattern).toBeNull()
    expect(patterns.refused).toHaveLength(1)
  })

  it.each([
    ['\\b(dragon|wyrm)s?\\b', 'i'],
    ['[k-豈]'.repeat(100), ''],
    ['[а-яА-ЯёЁ]+ '.repeat(60), 'i'],
    ['[a-z0-9_-]+ '.repeat(60), 'i'],
    ['[\\u4e00-\\u9fff]{2} '.repeat(10), 'i'],
    ['[一-鿿ぁ-んァ-ヶ]+'.repeat(10), 'i'],
    ['\\p{L}+ '.repeat(50), 'i'],
  ])('is accepted if its character classes are ordinary: %s with the flags "%s"', (pattern, flags) => {
    expect(readKey(`/${pattern}/${flags}`, true, emptyNotes().patterns)?.pattern).not.toBeNull()
  })

  it('costs work to compile, in each list of an entry', () => {
    const keys = Array(5).fill(`/${'[k-豈]'.repeat(3)}/i`)
    const content = `@@additional_keys ${keys.join(',')}\nText`
    const entry = { content, keys, selective: true, extensions: { position: 0 }, secondary_keys: keys }
    expect(unitsOf(() => readEntry(entry, 0, emptyNotes()))).toBeGreaterThan(15 * 300_000)
  })

  it('is refused if the programs of all patterns together are too large', () => {
    const { patterns } = emptyNotes()
    const keys = Array.from({ length: 100 }, (_, index) => readKey(`/moss${index}(a{1,900})/`, true, patterns))
    const read = keys.filter((key) => key?.pattern != null)
    expect(read).toHaveLength(patterns.compiled)
    expect(patterns.steps).toBeLessThanOrEqual(100_000)
    expect(patterns.compiled).toBeGreaterThan(40)
    expect(patterns.refused).toHaveLength(100 - patterns.compiled)
  })
})
