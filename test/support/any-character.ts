import fc from 'fast-check'

/** How many code points are halves of surrogate pairs, from the first on: no characters. */
const halves = { first: 0xd800, count: 0x800 }

/**
 * Any character there is, what fast-check calls the unit "binary": the same ones as often. Looking one up in fast-check's own
 * takes a map of all of them, a second of CPU time in each process.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat({ max: 0x10ffff - halves.count }).map(
  (index) => String.fromCodePoint(index < halves.first ? index : index + halves.count),
  (value) => {
    const code = typeof value === 'string' ? value.codePointAt(0) : undefined
    if (code === undefined || String.fromCodePoint(code) !== value || !value.isWellFormed())
      throw new Error('not a single character')
    return code < halves.first ? code : code - halves.count
  },
)
