/** Makes a formatter at its first use. On a phone this takes about 20 ms, and a view uses only a few formatters. */
function lazily<T>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

const numbers = lazily(() => new Intl.NumberFormat())
const moments = lazily(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' }))
const shares = lazily(() => new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 }))
const megabytes = lazily(() => bytesIn('megabyte'))
const kilobytes = lazily(() => bytesIn('kilobyte'))

function bytesIn(unit: string): Intl.NumberFormat {
  return new Intl.NumberFormat(undefined, { style: 'unit', unit, maximumFractionDigits: 1 })
}

/** A number in the reader's language. */
export function formatNumber(value: number): string {
  return numbers().format(value)
}

/** A moment in the reader's time zone and language. @param unixSeconds null and undefined become a dash */
export function formatMoment(unixSeconds: number | null | undefined): string {
  return typeof unixSeconds === 'number' ? moments().format(unixSeconds * 1000) : '–'
}

/** A fraction, such as 0.25, in percent. */
export function formatShare(fraction: number): string {
  return shares().format(fraction)
}

/** A number of bytes: in megabytes from one megabyte on, otherwise in kilobytes. */
export function formatBytes(value: number): string {
  return value < 1_000_000 ? kilobytes().format(value / 1000) : megabytes().format(value / 1_000_000)
}

/** A duration: in seconds from one second on, otherwise in milliseconds. Null becomes a dash. */
export function formatDuration(milliseconds: number | null): string {
  if (milliseconds === null) return '–'
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`
}
