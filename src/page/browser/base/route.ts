import { signal } from '@preact/signals'

/** A place in the page, from the fragment of its address: `#/account/usage` is `['account', 'usage']`. */
export type Place = readonly string[]

/** The current place. */
export const place = signal<Place>(readPlace())

addEventListener('hashchange', () => {
  place.value = readPlace()
})

function readPlace(): Place {
  if (!location.hash.startsWith('#/')) return []
  return location.hash.slice(2).split('/').map(decoded)
}

/** A decoded part of the address. A part with a broken encoding stays unchanged. */
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

/** Goes to the start of the page. The start replaces the place in the address and in the current entry of the tab's history. */
export function leave(): void {
  history.replaceState(null, '', location.pathname + location.search)
  place.value = []
}
