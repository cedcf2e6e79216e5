// Each is made when it is first used: that takes tens of milliseconds on a phone.
const numbers = onDemand(() => new Intl.NumberFormat(undefined))
const moments = onDemand(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' }))
const bytes = onDemand(
  () => new Intl.NumberFormat(undefined, { style: 'unit', unit: 'megabyte', maximumFractionDigits: 1 }),
)

function onDemand<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

/** A number as the reader's language writes it. */
export function formatNumber(value: number): string {
  return numbers().format(value)
}

/** A moment in the reader's zone and language. @param unixSeconds null becomes a dash */
export function formatMoment(unixSeconds: number | null | undefined): string {
  return typeof unixSeconds === 'number' ? moments().format(unixSeconds * 1000) : '–'
}

/** Bytes, in megabytes. */
export function formatBytes(value: number): string {
  return bytes().format(value / 1_000_000)
}

/** Milliseconds, in seconds from one second up. */
export function formatDuration(milliseconds: number | null): string {
  if (milliseconds === null) return '–'
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`
}
