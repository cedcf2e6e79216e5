import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { ask } from '../base/api.ts'
import { characterPath } from '../base/characters.ts'

interface PortraitProps {
  readonly name: string
  readonly digest: string
  readonly hasPicture: boolean
}

/** The most cached pictures. The least recently shown picture is evicted. */
const maxPictures = 300

/** Object URLs of pictures by digest. */
const pictures = new Map<string, Promise<string | undefined>>()

/** The picture of a character, or its first letter. The portrait is hidden from screen readers, since the name is beside it. */
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
    if (pictures.size <= maxPictures) break
    pictures.delete(oldest)
    void address.then((url) => url && URL.revokeObjectURL(url))
  }
  return picture
}

/** @returns the object URL of a picture. Undefined if the picture cannot be loaded; the page does not report this failure */
async function fetchPicture(name: string, digest: string): Promise<string | undefined> {
  try {
    const reply = await ask(`${characterPath(name)}/avatar`)
    return URL.createObjectURL(await reply.blob())
  } catch {
    pictures.delete(digest)
    return undefined
  }
}
