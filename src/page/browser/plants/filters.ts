import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { textIn } from '../ui/field.ts'
import { formatNumber } from '../ui/format.ts'
import {
  failure,
  found,
  hasMore,
  isFull,
  isLoaded,
  load,
  loading,
  needle,
  own,
  pause,
  plants,
  reload,
  stop,
  tag,
  tags,
  typedTag,
} from './list.ts'

/** The filters of the list. The page filters by name, and the service filters by tag. */
export function Filters(): VNode {
  return html`
    <form class="filters" role="search" aria-label="Find plants" onSubmit=${(event: Event) => event.preventDefault()}>
      <div>
        <label for="needle">Search by name</label>
        <input id="needle" type="search" dir="auto" autocomplete="off" value=${needle.value} onInput=${(event: Event) => (needle.value = textIn(event))} />
      </div>
      <div>
        <label for="tag">With the tag</label>
        <input id="tag" type="search" dir="auto" autocomplete="off" list="tags" placeholder="any" value=${typedTag.value}
          onInput=${(event: Event) => (typedTag.value = textIn(event))} onChange=${chooseTag} onSearch=${chooseTag} />
        <datalist id="tags">${tags.value.map((each) => html`<option key=${each} value=${each} />`)}</datalist>
      </div>
    </form>
  `
}

/**
 * Loads the plants with the typed tag. Also handles the event `search`, which comes when the button in the field clears the
 * field.
 */
function chooseTag(): void {
  const wanted = typedTag.value.trim()
  if (wanted !== tag.value) reload(wanted)
}

/** Shows how much of the list is loaded, with buttons to load the rest. */
export function Standing(): VNode {
  const isLoadingAll = loading.value === 'all'
  const mayLoad = isLoaded.value && hasMore.value && !isFull.value
  return html`
    <div class="row standing">
      <p role="status">${sentence()}</p>
      ${isLoadingAll && html`<${Progress} />`}
      <span class="row">
        ${isLoadingAll && html`<button type="button" onClick=${stop}>Stop</button>`}
        ${!isLoadingAll && mayLoad && html`<button type="button" onClick=${() => load('all')}>Load all</button>`}
        ${!isLoadingAll && html`<button type="button" onClick=${() => reload()}>Reload</button>`}
      </span>
      ${failure.value && html`<${Fault} />`}
    </div>
  `
}

/**
 * The progress of “Load all”. The bar is not a live region, because screen readers would announce it after each page of plants.
 * They announce the sentence above the bar instead.
 */
function Progress(): VNode {
  const here = plants.value.length
  const all = tag.value === '' && own.value !== undefined && own.value >= here ? own.value : undefined
  return html`
    <span class="row progress"><progress aria-label="Plants loaded" max=${all} value=${all && here}></progress> ${formatNumber(here)}</span>
    ${pause.value > 0 && html`<span role="status">The service wants a pause of ${pause.value} s; then it goes on.</span>`}
  `
}

function Fault(): VNode {
  const { message, retryAfter } = failure.value ?? { message: '', retryAfter: undefined }
  const wait = retryAfter === undefined ? '' : ` Wait ${retryAfter} s.`
  return html`<p class="fault" role="alert">${message}${wait} <button type="button" onClick=${() => load('page')}>Try again</button></p>`
}

function sentence(): string {
  if (!isLoaded.value) return loading.value === 'nothing' ? '' : 'Loading …'
  if (loading.value === 'all') return 'Loading all plants …'
  const here = plants.value.length
  const shown = needle.value.trim() === '' ? '' : ` ${formatNumber(found.value.length)} of them shown.`
  if (isFull.value) return `${counted(here)} loaded, as many as the page can hold. Choose a tag to see others.${shown}`
  if (!hasMore.value) return here === 0 ? '' : `${counted(here)} in all.${shown}`
  const total = own.value
  if (tag.value === '' && total !== undefined && total > here)
    return `${formatNumber(here)} of ${formatNumber(total)} plants loaded.${shown}`
  return `${counted(here)} loaded, and there are more.${shown}`
}

function counted(count: number): string {
  return `${formatNumber(count)} ${count === 1 ? 'plant' : 'plants'}`
}
