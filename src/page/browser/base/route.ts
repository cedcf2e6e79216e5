import { signal } from '@preact/signals'

/** A place in the page, as the fragment of its address says it: `#/account/usage` is `['account', 'usage']`. */
export type Place = readonly string[]

/** Where the reader is. */
export const place = signal<Place>(readPlace())

addEventListener('hashchange', () => {
  place.value = readPlace()
})

function readPlace(): Place {
  if (!location.hash.startsWith('#/')) return []
  return location.hash.slice(2).split('/').map(decoded)
}

/** A part of the address, as it was before it was encoded; as it stands where it is broken. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of a place. */
export function addressOf(...parts: readonly string[]): string {
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

/** Goes to a place. */
export function goTo(...parts: readonly string[]): void {
  location.hash = addressOf(...parts)
}

/** Goes to where the page begins, and takes the place out of the address and the tab's history. */
export function leave(): void {
  history.replaceState(null, '', location.pathname + location.search)
  place.value = []
}
