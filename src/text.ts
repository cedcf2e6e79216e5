/** A number with its noun: `1 plant`, `2 plants`. */
export function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is for
const control = /[\0-\x08\x0b-\x1f\x7f]/g

/** A text without carriage returns and other control characters; tabs and line feeds stay. */
export function withoutControls(text: string): string {
  return text.replace(control, '')
}

/** Of some names the one that a mistyped word may have meant, in whatever case; undefined where none is like it. */
export function nearest(word: string, names: readonly string[]): string | undefined {
  const written = word.toLowerCase()
  const mostEdits = Math.max(1, Math.floor(written.length / 3))
  const [best] = names
    .map((name) => ({ name, edits: edits(written, name.toLowerCase()) }))
    .filter(({ edits }) => edits <= mostEdits)
    .sort((one, other) => one.edits - other.edits)
  return best?.name
}

/** How many characters must be put in, left out, replaced, or swapped with the next, to make one text of another. */
function edits(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > Math.min(from.length, to.length)) return Number.POSITIVE_INFINITY
  let [beforeLast, last]: [readonly number[], readonly number[]] = [[], [...`${to} `].map((_, column) => column)]
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1]
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current[column] = Math.min(
        editsAt(last, column) + 1,
        editsAt(current, column - 1) + 1,
        editsAt(last, column - 1) + (same ? 0 : 1),
        swapped ? editsAt(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = current
  }
  return editsAt(last, to.length)
}

/** A cell of the table of edits; there is no way by one that is outside. */
function editsAt(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
