import { useComputed, useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { type Found, library, matching, reloadLibrary } from '../base/characters.ts'
import { textIn } from '../ui/field.ts'
import { formatNumber } from '../ui/format.ts'
import { Portrait } from '../ui/portrait.ts'
import { VirtualList } from '../ui/virtual-list.ts'

/** The number of a character's tags that are shown. The search compares all tags. */
const shownTags = 4

/** The list of all characters, with a search. */
export function Gallery({ onChoose }: { readonly onChoose: (name: string) => void }): VNode {
  const search = useSignal('')
  const shown = useComputed(() => matching(library.value.characters, search.value))
  const { failure } = library.value
  useEffect(() => void reloadLibrary(), [])
  const card = (character: Found) => html`
    <button type="button" class="character listed" onClick=${() => onChoose(character.name)}>
      <${Portrait} name=${character.name} digest=${character.digest} hasPicture=${character.has_avatar ?? true} />
      <span class="grow">
        <bdi class="name one-line">${character.name}</bdi>
        <span class="tags">${character.tags.slice(0, shownTags).map((tag) => html`<bdi class="tag one-line" key=${tag}>${tag}</bdi>`)}</span>
      </span>
    </button>
  `
  return html`
    <div class="chat-gallery column grow">
      <label class="search"><span class="unseen">Search by name or tag</span>
        <input type="search" placeholder="Search by name or tag" autocomplete="off" spellcheck=${false} onInput=${(event: Event) => (search.value = textIn(event))} />
      </label>
      <p class="faint" role="status">${standing(shown.value.length)}</p>
      ${
        failure &&
        html`<p role="alert" class="fault">${failure.message} <button type="button" onClick=${() => void reloadLibrary()}>Try again</button></p>`
      }
      <${VirtualList} class="characters" label="Characters" items=${shown.value} keyOf=${keyOf} rowHeight=${96} columnWidth=${260} row=${card} />
    </div>
  `
}

function keyOf({ name }: Found): string {
  return name
}

function standing(shown: number): string {
  const { characters, isComplete, failure } = library.value
  const all = characters.length
  const isLoading = !isComplete && !failure
  if (isLoading && all === 0) return 'Loading the characters …'
  const count =
    shown === all
      ? `${formatNumber(all)} ${all === 1 ? 'character' : 'characters'}`
      : `${formatNumber(shown)} of ${formatNumber(all)} characters`
  return isLoading ? `${count} so far, more are coming …` : count
}
