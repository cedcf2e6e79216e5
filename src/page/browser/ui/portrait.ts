import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { ask } from '../base/api.ts'
import { characterPath } from '../base/character-path.ts'

/** Whose picture is shown. */
export interface PortraitProps {
  readonly name: string
  readonly digest: string
  readonly hasPicture: boolean
}

/** Pictures that are kept, at most; the one that was shown longest ago goes. */
const mostKept = 300

/** Addresses of pictures by digest; a promise while one is on its way. */
const pictures = new Map<string, Promise<string | undefined>>()

/** The picture of a character, or its first letter. It is decoration: the name stands beside it. */
export function Portrait({ name, digest, hasPicture }: PortraitProps): VNode {
  const address = useSignal<string | undefined>(undefined)
  useEffect(() => {
    address.value = undefined
    if (!hasPicture) return
    let isShown = true
    void pictureOf(name, digest).then((found) => {
      if (isShown) address.value = found
    })
    return () => {
      isShown = false
    }
  }, [digest, hasPicture])
  const letter = [...name][0] ?? '?'
  return address.value === undefined
    ? html`<span class="portrait letter" aria-hidden="true">${letter}</span>`
    : html`<img class="portrait" src=${address.value} alt="" />`
}

function pictureOf(name: string, digest: string): Promise<string | undefined> {
  const known = pictures.get(digest)
  const picture = known ?? fetchPicture(name, digest)
  pictures.delete(digest)
  pictures.set(digest, picture)
  for (const [oldest, address] of pictures) {
    if (pictures.size <= mostKept) break
    pictures.delete(oldest)
    void address.then((url) => url && URL.revokeObjectURL(url))
  }
  return picture
}

/** @returns undefined where it cannot be had, which a missing picture is no reason to speak of */
async function fetchPicture(name: string, digest: string): Promise<string | undefined> {
  try {
    const reply = await ask(`${characterPath(name)}/avatar`)
    return URL.createObjectURL(await reply.blob())
  } catch {
    pictures.delete(digest)
    return undefined
  }
}
