/** Cells that are Unix seconds, and shown to people as ISO 8601. */
const moments = new Set(['created', 'expires', 'revoked', 'suspended', 'last_used'])

/** Prints rows on stdout: as JSON, or as a table for people with times as ISO 8601 and nothing as a dash. */
export function printRows(rows: readonly object[], json: true | undefined): void {
  process.stdout.write(json ? `${JSON.stringify(rows, null, 2)}\n` : tableOf(rows))
}

function tableOf(rows: readonly object[]): string {
  if (rows.length === 0) return ''
  const header = Object.keys(rows[0] ?? {})
  const lines = [
    header.map((name) => name.toUpperCase()),
    ...rows.map((row) => Object.entries(row).map(([name, value]) => cellOf(name, value))),
  ]
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  const padded = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return padded.map((line) => `${line.trimEnd()}\n`).join('')
}

function cellOf(name: string, value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (moments.has(name) && typeof value === 'number') return new Date(value * 1000).toISOString()
  return Array.isArray(value) ? value.join(',') : String(value)
}

/** A text that steers no terminal: control characters, and those that turn the direction of writing, are spelled out. */
export function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
