import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { countsOf, hasFact, logOf, rowOf, type Talk, talk } from '../../support/understudy-talks.ts'

/** The user's lines of twenty turns, by card: the four starter cards, and five cards in common styles of other authors. */
const lines: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync('test/models/understudy/conversations.json', 'utf8'),
)

const talks: Talk[] = []

beforeAll(async () => {
  for (const [file, said] of Object.entries(lines))
    talks.push(await talk(file.includes('/') ? file : join('test/models/understudy/cards', file), said))
})

const files = Object.keys(lines)

test.each(files)('twenty turns with %s', (file) => {
  const talk = talks[files.indexOf(file)]
  if (!talk) throw new Error(`no talk with ${file}`)
  const { turns, pointers, repeats, usersLines, gated, facts } = countsOf(talk)
  expect({ turns, usersLines, gated }).toEqual({ turns: 20, usersLines: 0, gated: 0 })
  expect(pointers).toBeLessThanOrEqual(3)
  expect(repeats).toBeLessThanOrEqual(1)
  expect(facts).toBeGreaterThanOrEqual(14)
})

test('the counters find bad replies', () => {
  const [fern] = talks
  const rook = talks.find(({ card }) => card.name === 'Rook')
  if (!fern || !rook) throw new Error('no talk')
  const reply =
    'Brief life story? The ninth gate opens to the sound of a bell that has not been cast yet. Ask me about owls.'
  const heldBack = rook.turns.at(-1)?.heldBack ?? []
  const turn = { line: 'Hm', reply, heard: ['Hm'], heldBack }
  const bad = countsOf({ ...rook, turns: [turn, turn] })
  expect(bad).toMatchObject({ pointers: 2, repeats: 1, usersLines: 2, gated: 2 })
  expect(hasFact(fern, { line: 'Hm', reply: 'There you have me.', heard: ['Hm'], heldBack })).toBe(false)
})

/** The document: the counts, and the whole conversations. */
function documentOf(): string {
  return introduction.replace('ROWS', talks.map(rowOf).join('\n')) + talks.map(logOf).join('\n')
}

const introduction = readFileSync('test/models/understudy/understudy.introduction.md', 'utf8')

test('docs/understudy.md shows these conversations', async () => {
  await expect(documentOf()).toMatchFileSnapshot('../../../docs/understudy.md')
})
