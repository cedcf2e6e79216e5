import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonBytes, jsonReply } from '../src/json-writer.ts'
import type { Steps } from '../src/work.ts'

/** Runs all steps. @returns the JSON, and the number of steps */
function written(steps: Steps<Buffer>): { readonly json: string; readonly steps: number } {
  for (let count = 0; ; count++) {
    const next = steps.next()
    if (next.done) return { json: next.value.toString(), steps: count }
  }
}

/** Texts around the length of a piece, with characters of two UTF-16 units and lone surrogates at every place. */
const longText = fc
  .tuple(
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.integer({ min: 65_500, max: 65_560 }),
    fc.constantFrom('a', '"', '😀', '\ud83d'),
  )
  .map(([end, length, character]) => `x${character.repeat(length)}${end}`)

describe('a JSON text that is written in steps', () => {
  it('is the text of JSON.stringify', () => {
    const value = fc.jsonValue().map((json) => [JSON.parse(JSON.stringify(json))])
    fc.assert(fc.property(value, (json) => written(jsonBytes(json)).json === JSON.stringify(json)))
  })

  it('has the same characters where long texts are cut', () => {
    const read = (text: string) => JSON.parse(written(jsonBytes({ text, next: [text] })).json)
    fc.assert(
      fc.property(longText, (text) => {
        expect(read(text)).toEqual({ text, next: [text] })
      }),
      { numRuns: 20 },
    )
  })

  it('has numbers like JSON.stringify, unless all numbers of JSON are kept', () => {
    const numbers = [-0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1.5]
    expect(written(jsonBytes(numbers)).json).toBe(JSON.stringify(numbers))
    expect(written(jsonBytes(numbers, { keepsNumbers: true })).json).toBe('[-0,1e999,-1e999,1.5]')
  })

  it('leaves out properties without a value', () => {
    expect(written(jsonBytes({ a: undefined, b: [undefined], c: null })).json).toBe('{"b":[null],"c":null}')
  })

  it.each([
    ['one long text', { text: 'moss '.repeat(400_000) }],
    ['one long name', { ['moss '.repeat(400_000)]: 1 }],
    ['many short texts', Array.from({ length: 200_000 }, () => 'moss fern')],
    ['many objects', Array.from({ length: 60_000 }, (_, id) => ({ id, name: 'moss', tags: [] }))],
  ])('has a step for every 64 KiB: %s', (_name, value) => {
    const { json, steps } = written(jsonBytes(value))
    expect(json).toBe(JSON.stringify(value))
    expect(steps).toBeGreaterThan(json.length / 131_072)
  })

  it('is written at once for a short reply, and in steps for a long one', () => {
    const first = (value: object) => jsonReply(value).next()
    expect(first({ text: 'moss', list: [1] })).toEqual({ done: true, value: '{"text":"moss","list":[1]}' })
    expect(first({ text: 'a'.repeat(70_000) }).done).toBe(false)
    expect(first({ ['a'.repeat(70_000)]: 1 }).done).toBe(false)
    expect(first({ numbers: Array(20_000).fill(1) }).done).toBe(false)
  })

  it('ends at the first level and the first byte beyond its bounds', () => {
    const refuse = (bound: number, what: string) => (value: number) => {
      if (value > bound) throw new Error(`${what} ${value}`)
    }
    expect(() => written(jsonBytes([[[[]]]], { checkDepth: refuse(2, 'level') }))).toThrow('level 3')
    const long = ['a'.repeat(1_000_000)]
    expect(() => written(jsonBytes(long, { checkBytes: refuse(70_000, 'byte') }))).toThrow(/byte 1310\d\d/)
  })
})
