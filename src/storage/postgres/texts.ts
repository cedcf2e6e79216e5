/** A text without U+0000, which PostgreSQL's texts cannot hold: `\` goes before what is written in another way. */
export function escapeNul(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\0', '\\0')
}

/** The text that `escapeNul` was given. */
export function unescapeNul(text: string): string {
  return text.replaceAll(/\\(.)/g, (_whole, letter: string) => (letter === '0' ? '\0' : letter))
}
