import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { countsOf, logOf, rowOf, talk } from '../support/understudy-talks.ts'

/*
 * Twenty turns of the understudy with each card of a folder (JSON, PNG or CHARX): CARDS=folder npm run trials -- understudy
 * The trial prints each conversation and its counts. The user's lines are the same for all cards.
 */

const folder = process.env['CARDS']
if (folder === undefined) throw new Error('CARDS names no folder of cards: CARDS=folder npm run trials -- understudy')
const lines: readonly string[] = JSON.parse(readFileSync('test/trials/understudy.lines.json', 'utf8'))
const files = readdirSync(folder).filter((file) => /\.(?:json|png|charx)$/i.test(file))

test('the folder CARDS has a card', () => expect(files).not.toEqual([]))

test.each(files)('in twenty turns with %s all counts are within their limits', async (file) => {
  const conversation = await talk(join(folder, file), lines)
  console.log(`${logOf(conversation)}\n${rowOf(conversation)}`)
  const { turns, pointers, repeats, usersLines, gated, facts } = countsOf(conversation)
  expect.soft({ turns, usersLines, gated }).toEqual({ turns: 20, usersLines: 0, gated: 0 })
  expect.soft(pointers).toBeLessThanOrEqual(3)
  expect.soft(repeats).toBeLessThanOrEqual(1)
  expect.soft(facts).toBeGreaterThanOrEqual(15)
})
