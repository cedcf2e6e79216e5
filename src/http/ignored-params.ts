/** How long the reply header `x-ignored-params` may be: clients refuse headers beyond some 16 KiB in all. */
const longestHeader = 4096

/** Names as the reply header `x-ignored-params` carries them; where there are too many, how many more there are. */
export function ignoredHeader(names: readonly string[]): string {
  const written = names.map((name) => encodeURIComponent(name.toWellFormed()))
  let length = 0
  const firstTooMany = written.findIndex((name) => {
    length += name.length + 1
    return length > longestHeader
  })
  const fitting = firstTooMany === -1 ? written : written.slice(0, firstTooMany)
  const more = written.length - fitting.length
  return [...fitting, ...(more > 0 ? [`+${more}`] : [])].join(',')
}
