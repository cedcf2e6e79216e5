import fc from 'fast-check'
import { expect, it } from 'vitest'
import { dayBegin, keptIfUsedSince, keptVersions, type PurgeRow, planPurge } from '../../src/characters/policy.ts'

const usedSince = 1000

/** A character with up to 60 versions. Each was used at some time or never, and one of them may be current. */
const character = fc.record({
  used: fc.array(fc.option(fc.constantFrom(0, usedSince - 1, usedSince, usedSince + 1)), { maxLength: 60 }),
  current: fc.nat({ max: 59 }),
  bytes: fc.constantFrom(10, 2 ** 20, 2 ** 26),
})

function rowsOf(name: string, { used, current, bytes }: { used: (number | null)[]; current: number; bytes: number }) {
  const versions = used.map((each, place) => ({ digest: `${name} ${place}`, bytes, used: each }))
  const shown = versions.length > keptVersions ? versions : [{ digest: null, bytes: null, used: null }]
  return shown.map((version): PurgeRow => ({ account: 1, name, current: `${name} ${current}`, ...version }))
}

it('the steps of a purge remove all expired versions and nothing else, and each step is small', () => {
  fc.assert(
    fc.property(fc.array(character, { maxLength: 6 }), (characters) => {
      let pages = characters.map((each, index) => rowsOf(`c${index}`, each))
      const surplus = pages.flatMap((rows) =>
        rows
          .filter(({ digest, current, used }, place) => {
            return digest !== null && place >= keptVersions && digest !== current && (used === null || used < usedSince)
          })
          .map(({ digest }) => digest),
      )
      const removed: string[] = []
      let after: { readonly account: number; readonly name: string } | null = null
      for (let isLast = false; !isLast; ) {
        const begin = after?.name ?? ''
        const rows = pages.flat().filter(({ name }) => name > begin)
        const plan = planPurge(rows, usedSince, after)
        const digests = plan.surplus.map(({ digest }) => digest)
        expect(digests.length).toBeLessThanOrEqual(10)
        const bytes = rows
          .filter(({ digest }) => digest !== null && digests.includes(digest))
          .map((row) => row.bytes ?? 0)
        if (bytes.length > 1) expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(2 ** 24)
        // Each step makes progress: it removes versions or finishes characters.
        if (!plan.isLast && digests.length === 0) expect(plan.after?.name).not.toBe(after?.name)
        removed.push(...digests)
        pages = pages.map((versions) => versions.filter(({ digest }) => digest === null || !digests.includes(digest)))
        ;({ after, isLast } = plan)
      }
      expect(removed.toSorted()).toStrictEqual(surplus.toSorted())
    }),
  )
})

it('a version counts as used for 90 days after the day of its use, at any time of that day', () => {
  const day = 86_400
  const lastSecond = 200 * day + day - 1
  expect(dayBegin(lastSecond)).toBe(200 * day)
  expect(keptIfUsedSince(lastSecond)).toBe(110 * day)
  expect(keptIfUsedSince(200 * day)).toBe(110 * day)
})
