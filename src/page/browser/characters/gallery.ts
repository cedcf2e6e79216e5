import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { type Found, library, matching, reloadLibrary } from '../base/characters.ts'
import { addressOf, place } from '../base/route.ts'
import { textIn } from '../ui/field.ts'
import { formatNumber } from '../ui/format.ts'
import { clip } from '../ui/long-text.ts'
import { Portrait } from '../ui/portrait.ts'
import { VirtualList } from '../ui/virtual-list.ts'
import { origins } from './character.ts'

/** The search text. It stays while other views are shown. */
export const search = signal('')
/** An origin, or `all`. */
const origin = signal('all')

const tagsShown = 2

/** All characters, with a search. */
export function Gallery(): VNode {
  const { characters, isComplete, failure } = library.value
  // After a new search, the list is scrolled to its beginning.
  useEffect(() => document.querySelector('.gallery')?.scrollTo(0, 0), [search.value, origin.value])
  if (failure) {
    return html`
      <div class="waiting" role="alert">
        <p>${failure.message}</p>
        <p><button type="button" onClick=${reloadLibrary}>Try again</button></p>
      </div>
    `
  }
  const found = matching(characters, search.value).filter((each) => [each.origin, 'all'].includes(origin.value))
  return html`
    <${SearchForm} />
    <p class="count faint" role="status">${countOf(found.length, characters.length, isComplete)}</p>
    ${!isComplete && html`<progress aria-label="Loading characters"></progress>`}
    ${
      found.length === 0
        ? isComplete && html`<p class="empty">${nothingFound(characters.length)}</p>`
        : html`
          <${VirtualList} class="gallery" label="Characters" items=${found} keyOf=${nameOf} rowHeight=${104} columnWidth=${270}
            row=${cell} />
        `
    }
  `
}

function SearchForm(): VNode {
  return html`
    <form class="search" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
      <input type="search" aria-label="Search characters" placeholder="Name, tag or creator" value=${search.value} onInput=${(event: Event) => (search.value = textIn(event))} />
      <select class="short" aria-label="Whose characters" value=${origin.value} onChange=${(event: Event) => (origin.value = textIn(event))}>
        <option value="all">All</option>
        <option value="account">Yours</option>
        <option value="folder">The operator’s</option>
        <option value="starter">Starters</option>
      </select>
    </form>
  `
}

function countOf(found: number, all: number, isComplete: boolean): string {
  const known = `${formatNumber(all)}${isComplete ? '' : ' so far'}`
  if (found !== all) return `${formatNumber(found)} of ${known}`
  return all === 1 && isComplete ? 'One character' : `${known} characters`
}

function nothingFound(all: number): string {
  return all === 0 ? 'There are no characters yet.' : 'No character is like this. Change what you look for.'
}

function nameOf({ name }: Found): string {
  return name
}

function cell(character: Found): VNode {
  const { name, creator, tags, digest, has_avatar: hasPicture = false } = character
  return html`
    <a class="button listed card" href=${addressOf('characters', name)} aria-current=${place.value[1] === name ? 'true' : undefined}>
      <${Portrait} name=${name} digest=${digest} hasPicture=${hasPicture} />
      <span class="about grow">
        <span class="name one-line" dir="auto">${clip(name)}</span>
        <span class="faint one-line">${origins[character.origin]}${creator && html` · by <bdi>${clip(creator, 60)}</bdi>`}</span>
        <span class="tags one-line">
          ${tags.slice(0, tagsShown).map((tag) => html`<span class="tag one-line" dir="auto">${clip(tag, 40)}</span>`)}
          ${tags.length > tagsShown && html`<span class="faint">+${tags.length - tagsShown}</span>`}
        </span>
      </span>
    </a>
  `
}
