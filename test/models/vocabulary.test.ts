import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads'
import fc from 'fast-check'
import tokens from 'gpt-tokenizer/bpeRanks/o200k_base'
import { encode, setMergeCacheSize } from 'gpt-tokenizer/encoding/o200k_base'
import { O200K_TOKEN_SPLIT_REGEX as wordPattern } from 'gpt-tokenizer/encodingParams/constants'
import { describe, expect, test } from 'vitest'
import { Vocabulary } from '../../src/models/vocabulary.ts'
import { anyCharacter } from '../support/any-character.ts'

// Another file in this process may have loaded it.
setEnvironmentData('o200k_base', undefined)
let turns = 0
let ticking = setImmediate(function tick() {
  turns++
  ticking = setImmediate(tick)
})
const vocabulary = await Vocabulary.load()
clearImmediate(ticking)
setMergeCacheSize(0)

const anyWords = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 100 }),
  fc.string({ unit: 'grapheme', maxLength: 100 }),
  fc.lorem({ maxCount: 30 }),
)

/** Where the tokens of a word end, in bytes, by the package's own code. */
function expectedEnds(word: string): readonly number[] {
  let end = 0
  return encode(word, { disallowedSpecial: new Set() }).map((rank) => {
    end += Buffer.from(tokens[rank] ?? []).length
    return end
  })
}

describe('vocabulary', () => {
  test('the tokens of a word are those of gpt-tokenizer', () => {
    fc.assert(
      fc.property(anyWords, (text) => {
        for (const [word] of text.matchAll(wordPattern)) {
          expect(vocabulary.tokenEnds(Buffer.from(word))).toEqual(expectedEnds(word))
        }
      }),
    )
  })

  test('each token of the file is one token', () => {
    for (const token of tokens) {
      const bytes = Buffer.from(token)
      expect(vocabulary.tokenEnds(bytes).length).toBe(1)
    }
  })

  test('the event loop turns while the file is read', () => {
    expect(turns).toBeGreaterThan(40)
  })

  test('workers that start later have the same tables in shared memory', () => {
    expect(getEnvironmentData('o200k_base')).toBeInstanceOf(SharedArrayBuffer)
  })
})
