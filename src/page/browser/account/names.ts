import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { getJson } from '../base/api.ts'
import { identity, may } from '../base/session.ts'
import { cut } from '../ui/long-text.ts'

/** Characters of a name that are shown, and where there is room for all of it: a name may be as long as a body. */
const mostShown = 120
const mostOfWhole = 500

/** What a reader would not see, or what would change the order of what stands around it. */
const unseen = /[\p{Cc}\p{Bidi_Control}\u{feff}\p{Zl}\p{Zp}]/gu

/** A name as somebody has chosen it, so that all of it is seen: what is unseen by its number, and a long one cut. */
export function shown(name: string, most = mostShown): string {
  const text = name.length > most ? `${cut(name, most)}…` : name
  return text.replaceAll(unseen, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`
  })
}

/** What name is shown. */
interface NameProps {
  readonly text: string
  /** Whether there is room for more than its beginning. */
  readonly isWhole?: boolean
}

/** A name within other text, in its own direction. */
export function Name({ text, isWhole = false }: NameProps): VNode {
  const title = text.length > mostShown && !isWhole ? shown(text, mostOfWhole) : undefined
  return html`<bdi class="given-name" title=${title}>${shown(text, isWhole ? mostOfWhole : mostShown)}</bdi>`
}

/** A character of the ledger, which is such as `Fern@sha256:0d0c…`: its name, and the digest of its card where it has one. */
export function characterParts(written: string): { readonly name: string; readonly digest?: string } {
  const [, name, digest] = /^(.*)@sha256:([0-9a-f]{64})$/su.exec(written) ?? []
  return name === undefined || digest === undefined ? { name: written } : { name, digest }
}

/** A character by its name, and by the beginning of its card's digest: two versions have one name. */
export function Character({ written }: { readonly written: string }): VNode {
  const { name, digest } = characterParts(written)
  const mark = digest && html` <code class="faint" title=${digest}>${digest.slice(0, 8)}</code>`
  return html`<span><${Name} text=${name} />${mark}</span>`
}

/** Names of keys by their prefixes, as far as the reader may see them. */
const keyNames = signal<ReadonlyMap<string, string>>(new Map())

identity.subscribe(() => {
  keyNames.value = new Map()
})

/** Looks up what the keys of the account are called. They have prefixes too: without their names nothing is missing. */
export async function loadKeyNames(): Promise<void> {
  if (!may('keys') && !may('admin')) return
  const whose = identity.value
  try {
    const { data } = await getJson<{ readonly data: readonly ListedKey[] }>('keys')
    if (identity.value === whose) keyNames.value = new Map(data.map(({ prefix, name }) => [prefix, name ?? '']))
  } catch {
    // As above.
  }
}

interface ListedKey {
  readonly prefix: string
  readonly name: string | null
}

/** A key by its prefix, and by its name where that is known. */
export function KeyName({ prefix }: { readonly prefix: string }): VNode {
  const name = keyNames.value.get(prefix)
  return html`<span><code><bdi>${shown(prefix)}</bdi></code>${name && html` (<${Name} text=${name} />)`}</span>`
}
