import fc from 'fast-check'
import { RE2JS } from 're2js'
import { describe, expect, it } from 'vitest'
import { readEntry } from '../../../src/characters/lore/entry.ts'
import { readKey } from '../../../src/characters/lore/keys.ts'
import { emptyNotes } from '../../../src/characters/lore/lorebook.ts'
import { LorePattern } from '../../../src/characters/lore/pattern.ts'
import { NfaRun, type PatternRun } from '../../../src/characters/lore/pattern-runs.ts'
import { ScanBudget } from '../../../src/characters/lore/scan-budget.ts'
import { firstKeyIn, ScannedText } from '../../../src/characters/lore/scanned-text.ts'
import { workAtOnce } from '../../../src/work.ts'

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

function isIn(pattern: LorePattern, text: string): boolean {
  return workAtOnce().run('text', pattern.search(text))
}

/** The last verdict of a run. */
function foundBy(run: PatternRun): string {
  let verdict = run.step()
  while (verdict === 'not yet') verdict = run.step()
  return verdict
}

/** Takes some steps of a search, which make many DFA states, and leaves the search unfinished. */
function beginsToSearch(pattern: LorePattern, text: string): void {
  const steps = pattern.search(text)
  for (let taken = 0; taken < 20; taken++) steps.next()
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

  it('is found by the DFA and by the NFA exactly if RE2JS finds it', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...atoms), { minLength: 1, maxLength: 8 }).map((parts) => parts.join('')),
        fc.array(letter, { minLength: 1, maxLength: 12 }).map((letters) => letters.join('')),
        fc.nat(flags),
        (written, text, bits) => {
          const compiled = RE2JS.compile(written, bits & flags)
          const expected = compiled.test(text)
          expect(isIn(new LorePattern(() => RE2JS.compile(written, bits & flags)), text)).toBe(expected)
          expect(foundBy(new NfaRun(compiled.re2().prog, text))).toBe(expected ? 'found' : 'not found')
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
    expect(key?.pattern && isIn(key.pattern, text)).toBe(expected)
  })

  it('is searched for in short steps, which cost work for each DFA state that is made', () => {
    const steps = new LorePattern(() => RE2JS.compile(manyStates)).search(letters(20_000))
    const units: number[] = []
    for (let step = steps.next(); !step.done; step = steps.next()) units.push(step.value)
    expect(Math.max(...units)).toBeLessThan(100_000)
    expect(units.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(20_000 * 40)
  })

  it('stops its search in the middle of a text when the budget of the request is spent', () => {
    const budget = new ScanBudget()
    budget.unitsLeft = 300_000
    const key = readKey(`/${manyStates}/`, true, emptyNotes().patterns)
    if (!key?.pattern) throw new Error('no pattern')
    const texts = [new ScannedText(`${letters(20_000)}d`, budget)]
    const expand = function* () {
      yield 0
      return key
    }
    const search = firstKeyIn([key], texts, { caseSensitive: false, wholeWords: false }, { budget, expand })
    const units: number[] = []
    for (let step = search.next(); !step.done; step = search.next()) units.push(step.value)
    expect(units.length).toBeGreaterThan(10)
    expect(budget.unitsLeft).toBeLessThanOrEqual(0)
    expect(budget.unitsLeft).toBeGreaterThan(-20_000)
  })

  it('drops the DFA states of a search that stopped halfway when another pattern makes many states', () => {
    const compiled = [RE2JS.compile(manyStates), RE2JS.compile(manyStates)]
    const patterns = compiled.map((each) => new LorePattern(() => each))
    for (const pattern of patterns) beginsToSearch(pattern, letters(4000))
    const [first = 0, second = 0] = compiled.map(stateBytes)
    expect(second).toBeGreaterThan(16 * 1024)
    expect(first).toBeLessThanOrEqual(16 * 1024)
  })

  it('keeps few DFA states after any text, and finds what a pattern without bounds finds', () => {
    const plain = RE2JS.compile(manyStates)
    const compiled = RE2JS.compile(manyStates)
    const pattern = new LorePattern(() => compiled)
    for (const text of [letters(4000), `${letters(4000)}d`, 'd']) expect(isIn(pattern, text)).toBe(plain.test(text))
    expect(stateBytes(plain)).toBeGreaterThan(1024 ** 2)
    expect(stateBytes(compiled)).toBeLessThanOrEqual(pattern.bytes)
  })

  it('keeps its DFA states if it is ordinary, so that the next text costs less', () => {
    const compiled = RE2JS.compile('\\b(fern|moss)s?\\b.*\\bgarden')
    const pattern = new LorePattern(() => compiled)
    expect(isIn(pattern, 'a fern in the garden')).toBe(true)
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

  it('is compiled in a step of its own, which has the cost of the compilation', () => {
    const pattern = `/${'[k-豈]'.repeat(3)}/i`
    const decorators = `@@additional_keys ${Array(5).fill(pattern).join(',')}\nText`
    const entry = { content: decorators, keys: Array(5).fill(pattern), selective: true, extensions: { position: 0 } }
    const steps = readEntry({ ...entry, secondary_keys: Array(5).fill(pattern) }, 0, emptyNotes())
    const units: number[] = []
    for (let step = steps.next(); !step.done; step = steps.next()) units.push(step.value)
    expect(units.filter((each) => each > 300_000)).toHaveLength(15)
    expect(Math.max(...units)).toBeLessThan(800_000)
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
