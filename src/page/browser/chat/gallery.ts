import { useComputed, useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { formatNumber } from '../ui/format.ts'
import { Portrait } from '../ui/portrait.ts'
import { VirtualList } from '../ui/virtual-list.ts'
import {
  characters,
  found,
  isLoading,
  listFailure,
  loadCharacters,
  type SearchableCharacter,
} from './character-list.ts'

/** The handler of a choice. */
export interface GalleryProps {
  readonly onChoose: (name: string) => void
}

/** The number of a character's tags that are shown. The search compares all tags. */
const shownTags = 4

/** The list of all characters, with a search. */
export function Gallery({ onChoose }: GalleryProps): VNode {
  const search = useSignal('')
  const shown = useComputed(() => found(characters.value, search.value))
  useEffect(() => void loadCharacters(), [])
  const onInput = ({ currentTarget }: Event) => {
    if (currentTarget instanceof HTMLInputElement) search.value = currentTarget.value
  }
  const card = (character: SearchableCharacter) => html`
    <button type="button" class="character listed" onClick=${() => onChoose(character.name)}>
      <${Portrait} name=${character.name} digest=${character.digest} hasPicture=${character.has_avatar ?? true} />
      <span class="about">
        <bdi class="name one-line">${character.name}</bdi>
        <span class="tags">${character.tags.slice(0, shownTags).map((tag) => html`<bdi class="tag one-line" key=${tag}>${tag}</bdi>`)}</span>
      </span>
    </button>
  `
  return html`
    <div class="chat-gallery">
      <label class="search"><span class="unseen">Search by name or tag</span>
        <input type="search" placeholder="Search by name or tag" autocomplete="off" spellcheck=${false} onInput=${onInput} />
      </label>
      <p class="faint" role="status">${standing(shown.value.length)}</p>
      ${
        listFailure.value &&
        html`<p role="alert" class="fault">${listFailure.value.message} <button type="button" onClick=${() => void loadCharacters()}>Try again</button></p>`
      }
      <${VirtualList} class="characters" label="Characters" items=${shown.value} keyOf=${keyOf} rowHeight=${96} columnWidth=${260} row=${card} />
    </div>
  `
}

function keyOf({ name }: SearchableCharacter): string {
  return name
}

function standing(shown: number): string {
  const all = characters.value.length
  if (isLoading.value && all === 0) return 'Loading the characters …'
  const count =
    shown === all
      ? `${formatNumber(all)} ${all === 1 ? 'character' : 'characters'}`
      : `${formatNumber(shown)} of ${formatNumber(all)} characters`
  return isLoading.value ? `${count} so far, more are coming …` : count
}
