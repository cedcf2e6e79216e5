import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { UsageLine } from '../../src/usage/report.ts'
import { FirstLines } from '../../src/usage/sqlite-report.ts'

const lineOf = (group: string | null, promptTokens: number): UsageLine => {
  return { group, requests: 1, promptTokens, completionTokens: 0, failed: 0 }
}

describe('the first lines', () => {
  it('are the first of all lines in order, however many there are', () => {
    const tokens = fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 60 })
    fc.assert(
      fc.property(tokens, fc.integer({ min: 1, max: 70 }), (all, most) => {
        const lines = all.map((count, index) => lineOf(index === 0 ? null : `model ${index % 7}${index}`, count))
        const first = new FirstLines('model', most)
        const firstDays = new FirstLines('day', most)
        for (const line of lines) {
          first.add(line)
          firstDays.add(line)
        }
        const name = (line: UsageLine) => line.group ?? ''
        const byName = lines.toSorted((a, b) => Number(name(a) > name(b)) - Number(name(a) < name(b)))
        expect(firstDays.inOrder()).toEqual(byName.slice(0, most))
        expect(first.inOrder()).toEqual(byName.toSorted((a, b) => b.promptTokens - a.promptTokens).slice(0, most))
      }),
    )
  })
})
