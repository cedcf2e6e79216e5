/** The forms of a database's URL in a move, for messages. */
export const placeForm = 'sqlite:./path or postgres://host/name'

/** The engine of a URL; undefined for a URL of another form. */
export function engineOf(url: string): 'sqlite' | 'postgres' | undefined {
  if (/^sqlite:./.test(url)) return 'sqlite'
  return /^postgres(ql)?:\/\/./.test(url) ? 'postgres' : undefined
}
