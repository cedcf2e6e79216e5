type Cell = string | number | null

/**
 * Writes a header and rows as CSV (RFC 4180): CRLF after each line, quotes only where needed, an empty cell for null.
 * A text that a spreadsheet would run as a formula gets an apostrophe before it.
 */
export function csvOf(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(cellOf).join(',')}\r\n`).join('')
}

function cellOf(cell: Cell): string {
  if (typeof cell !== 'string') return cell === null ? '' : String(cell)
  // Spreadsheets skip blanks before the sign of a formula, and some accept the full-width form of the sign.
  const harmless = /^[\s\p{Cc}]*[=+\-@＝＋－＠]/u.test(cell) || /^[\t\r\n]/.test(cell) ? `'${cell}` : cell
  return /[",\r\n]|^\s|\s$/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
