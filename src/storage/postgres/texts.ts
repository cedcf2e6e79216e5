/** A text without U+0000, which PostgreSQL cannot store in TEXT: `\0` stands for it, and `\\` for a backslash. */
export function escapeNul(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\0', '\\0')
}

/** The inverse of `escapeNul`. */
export function unescapeNul(text: string): string {
  return text.replaceAll(/\\(.)/g, (_whole, letter: string) => (letter === '0' ? '\0' : letter))
}
