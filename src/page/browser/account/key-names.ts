import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { identity, may, ofAccount } from '../base/session.ts'
import { Name, shown } from '../ui/names.ts'
import { keyPages } from './key-list.ts'

/** Names of keys by their prefixes. Empty if the reader may not list keys. */
const keyNames = ofAccount<ReadonlyMap<string, string>>(new Map())

/** The most pages of keys whose names are loaded. A page has at most 1,000 keys. */
const maxKeyPages = 10

/**
 * Loads the names on the first pages of the account's keys. A failure is ignored, because the prefixes are shown even without the
 * names.
 */
export async function loadKeyNames(): Promise<void> {
  if (!may('keys') && !may('admin')) return
  const whose = identity.value
  try {
    let count = 0
    for await (const page of keyPages()) {
      if (identity.value !== whose) return
      keyNames.value = new Map([...keyNames.value, ...page.map(({ prefix, name }) => [prefix, name ?? ''] as const)])
      count += 1
      if (count === maxKeyPages) return
    }
  } catch {
    // Without the names, the prefixes are shown.
  }
}

/** A key's prefix, and the key's name if it is known. */
export function KeyName({ prefix }: { readonly prefix: string }): VNode {
  const name = keyNames.value.get(prefix)
  return html`<span><code><bdi>${shown(prefix)}</bdi></code>${name && html` (<${Name} text=${name} />)`}</span>`
}
