/** How a database to move is given. */
export const placeForm = 'sqlite:./path or postgres://host/name'

/** Which engine a URL names; undefined for one that names none. */
export function engineOf(url: string): 'sqlite' | 'postgres' | undefined {
  if (/^sqlite:./.test(url)) return 'sqlite'
  return /^postgres(ql)?:\/\/./.test(url) ? 'postgres' : undefined
}
