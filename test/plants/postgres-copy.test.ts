import fc from 'fast-check'
import { expect, it } from 'vitest'
import { plantLine } from '../../src/plants/account-file.ts'
import type { PortablePlant } from '../../src/plants/portable.ts'
import { linesOfCopy } from '../../src/plants/postgres-copy.ts'

/** Escapes of COPY (postgresql.org/docs/current/sql-copy.html, "Text Format"). */
const letters = new Map([...'\\\b\f\n\r\t\v'].map((character, index) => [character, '\\bfnrtv'[index]]))

function copied(text: string): string {
  return [...text].map((character) => (letters.has(character) ? `\\${letters.get(character)}` : character)).join('')
}

function rowOf({ id, name, tag }: PortablePlant): string {
  return `${id}\t${copied(name)}\t${tag === undefined ? '\\N' : copied(tag)}\n`
}

async function* inPieces(bytes: Buffer, length: number): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += length) yield bytes.subarray(start, start + length)
}

/** The lines of a text that arrives in pieces of this length. */
async function linesIn(plants: readonly PortablePlant[], length: number): Promise<string> {
  const lines: Buffer[] = []
  for await (const some of linesOfCopy(inPieces(Buffer.from(plants.map(rowOf).join('')), length))) lines.push(some)
  return Buffer.concat(lines).toString('utf8')
}

/** Any characters except U+0000, which PostgreSQL cannot store, with more of those that COPY or JSON escapes. */
const character = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }).filter((text) => text !== '\0'),
  fc.constantFrom(...'\\"Nbnv\b\f\n\r\t\v\u0001\u001f\u007f\u2028'),
)
const text = fc.array(character, { maxLength: 20 }).map((characters) => characters.join(''))
const plant = fc.record({ id: fc.maxSafeInteger(), name: text, tag: text }, { requiredKeys: ['id', 'name'] })

it('turns rows of COPY into lines of an export, byte for byte like `plantLine`, in pieces of any size', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(plant), fc.integer({ min: 1, max: 99 }), async (plants, length) => {
      expect(await linesIn(plants, length)).toBe(plants.map(plantLine).join(''))
    }),
    { numRuns: 300 },
  )
})

it('has space for the longest lines that rows can produce', async () => {
  const plants = [
    { id: 1, name: '\u0001'.repeat(300), tag: '\u001f'.repeat(300) },
    ...Array.from({ length: 300 }, (_, id) => ({ id: id % 10, name: '', tag: '' })),
  ]
  for (const some of [plants, plants.slice(0, 1), plants.slice(1)]) {
    expect(await linesIn(some, Number.MAX_SAFE_INTEGER)).toBe(some.map(plantLine).join(''))
  }
})
