import { RE2JS } from 're2js'
import { describe, expect, it } from 'vitest'
import { readKey } from '../../../src/characters/lore/keys.ts'
import { emptyNotes } from '../../../src/characters/lore/lorebook.ts'
import { LorePattern } from '../../../src/characters/lore/pattern.ts'

/** Bytes of the states that RE2 keeps of a pattern, as it counts them. */
function stateBytes(compiled: RE2JS): number {
  const { dfa } = compiled.re2()
  return dfa.stateBudget - dfa.memBudget
}

/** Letters that have RE2 make a new state for nearly each of them. */
function letters(count: number): string {
  let state = 1
  let text = ''
  for (let index = 0; index < count; index++) {
    state = (state * 48271) % 2147483647
    text += state & 64 ? 'a' : 'b'
  }
  return text
}

describe('a pattern of a lorebook', () => {
  it('keeps few states, whatever it was tried on, and finds the same', () => {
    const written = '(a|b)*a(a|b){40}[^a-c]'
    const plain = RE2JS.compile(written)
    const compiled = RE2JS.compile(written)
    const pattern = new LorePattern(() => compiled)
    for (const text of [letters(4000), `${letters(4000)}d`, 'd']) expect(pattern.test(text)).toBe(plain.test(text))
    expect(stateBytes(plain)).toBeGreaterThan(1024 ** 2)
    expect(stateBytes(compiled)).toBeLessThanOrEqual(pattern.bytes)
  })

  it('keeps the states of an ordinary one, so that the next text costs less', () => {
    const compiled = RE2JS.compile('\\b(fern|moss)s?\\b.*\\bgarden')
    const pattern = new LorePattern(() => compiled)
    expect(pattern.test('a fern in the garden')).toBe(true)
    expect(stateBytes(compiled)).toBeGreaterThan(0)
  })

  it('is refused where those before it make up too large programs together', () => {
    const { patterns } = emptyNotes()
    const keys = Array.from({ length: 100 }, (_, index) => readKey(`/moss${index}(a{1,900})/`, true, patterns))
    const read = keys.filter((key) => key?.pattern != null)
    expect(read).toHaveLength(patterns.compiled)
    expect(patterns.steps).toBeLessThanOrEqual(100_000)
    expect(patterns.compiled).toBeGreaterThan(40)
    expect(patterns.refused).toHaveLength(100 - patterns.compiled)
  })
})
