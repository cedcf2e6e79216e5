import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { cut } from './long-text.ts'

/** The most characters of a name that are shown in a list, and outside a list. A name may be as long as the body of a request. */
const maxShown = 120
const maxShownAlone = 500

/** Invisible characters, and characters that change the direction of the text around them. */
const invisible = /[\p{Cc}\p{Bidi_Control}\u{feff}\p{Zl}\p{Zp}]/gu

/** An untrusted name for display: invisible characters are shown as `[U+…]`, and a long name is cut. */
export function shown(name: string, maxLength = maxShown): string {
  const text = name.length > maxLength ? `${cut(name, maxLength)}…` : name
  return text.replaceAll(invisible, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`
  })
}

interface NameProps {
  readonly text: string
  /** Whether up to 500 characters are shown instead of 120. */
  readonly isWhole?: boolean
}

/** A name within other text. Its writing direction is isolated from the other text. */
export function Name({ text, isWhole = false }: NameProps): VNode {
  const title = text.length > maxShown && !isWhole ? shown(text, maxShownAlone) : undefined
  return html`<bdi class="given-name" title=${title}>${shown(text, isWhole ? maxShownAlone : maxShown)}</bdi>`
}

/**
 * Splits a character of the ledger or of a prompt, such as `Fern@sha256:0d0c…`, into its name and, if present, the digest of its
 * card.
 */
export function partsOfCharacter(written: string | null): { readonly name?: string; readonly digest?: string } {
  if (written === null) return {}
  const [, name, digest] = /^(.*)@sha256:([0-9a-f]{64})$/su.exec(written) ?? []
  return name === undefined || digest === undefined ? { name: written } : { name, digest }
}

/** A character's name, and the beginning of its card's digest, which distinguishes versions. */
export function Character({ written }: { readonly written: string }): VNode {
  const { name = '', digest } = partsOfCharacter(written)
  const mark = digest && html` <code class="faint" title=${digest}>${digest.slice(0, 8)}</code>`
  return html`<span><${Name} text=${name} />${mark}</span>`
}
