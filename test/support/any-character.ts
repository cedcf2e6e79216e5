import fc from 'fast-check'

/** The surrogate code points, which are no characters. */
const halves = { first: 0xd800, count: 0x800 }

/**
 * Any Unicode character, with the distribution of fast-check's unit "binary". The arbitrary of fast-check makes a map of all
 * characters, which takes a second of CPU time in each process.
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
