import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { may } from '../base/session.ts'
import { AddForm } from './add-form.ts'
import { Deletion, Details } from './details.ts'
import { Filters, Standing } from './filters.ts'
import { found, hasMore, isLoaded, load, loading, needle, plants, reload, said, tag } from './list.ts'
import type { Plant } from './plant.ts'
import { PlantTable } from './table.ts'

/** The plant of the open dialog, and whether the dialog asks to delete the plant. */
const opened = signal<{ readonly plant: Plant; readonly toDelete: boolean } | undefined>(undefined)

/** The account's plants, and plants that other accounts share with it. */
export function View(): VNode {
  const mayRead = may('plants:read')
  useEffect(() => {
    if (mayRead && !isLoaded.value && loading.value === 'nothing') reload()
    return close
  }, [])
  return html`
    <div class="plants-view column">
      <h1>Plants</h1>
      ${may('plants:write') && html`<${AddForm} />`}
      <p class="said success" role="status" dir="auto">${said.value}</p>
      ${mayRead ? html`<${Filters} /><${Standing} /><${List} />` : html`<p class="help">This key adds plants, and may not list them: it lacks the scope plants:read.</p>`}
      <${Opened} />
    </div>
  `
}

function List(): VNode | null {
  if (found.value.length === 0) return isLoaded.value ? html`<${Nothing} />` : null
  const mayDelete = may('plants:write')
  return html`
    <${PlantTable} plants=${found.value} hasMore=${hasMore.value} mayDelete=${mayDelete} onTag=${reload} onEnd=${loadMore}
      onOpen=${(plant: Plant) => open(plant, false)} onDelete=${(plant: Plant) => open(plant, true)} />
    <p id="plants-keys" class="help keys">Arrow keys go from plant to plant, Enter shows one${mayDelete && ', Delete deletes it'}.</p>
  `
}

/** The text that is shown instead of an empty table, with a way to continue. */
function Nothing(): VNode {
  if (plants.value.length > 0) {
    const which = hasMore.value ? 'None of the plants that are loaded has' : 'No plant has'
    return html`<div class="empty"><p>${which} <q dir="auto">${needle.value.trim()}</q> in its name.</p>
      <p><button type="button" onClick=${() => (needle.value = '')}>Show all names</button></p></div>`
  }
  if (tag.value !== '') {
    return html`<div class="empty"><p>No plant has the tag <q dir="auto">${tag.value}</q>.</p>
      <p><button type="button" onClick=${() => reload('')}>Show all tags</button></p></div>`
  }
  return html`<div class="empty"><p>There are no plants yet.</p>
    <p>${may('plants:write') ? 'Add the first one: type its name above.' : 'This key may not add any: sign in with one that has the scope plants:write.'}</p></div>`
}

function Opened(): VNode | null {
  if (!opened.value) return null
  const { plant, toDelete } = opened.value
  if (toDelete) return html`<${Deletion} key=${plant.key} plant=${plant} onClose=${close} onDone=${focusTable} />`
  const showTag = (wanted: string) => {
    close()
    reload(wanted)
  }
  return html`<${Details} plant=${plant} mayDelete=${may('plants:write')} onTag=${showTag} onClose=${close} onDelete=${() => open(plant, true)} />`
}

function open(plant: Plant, toDelete: boolean): void {
  opened.value = { plant, toDelete }
}

function close(): void {
  opened.value = undefined
}

/** Closes the dialog, and gives the focus to the table, because the button that had the focus has disappeared with the plant. */
function focusTable(): void {
  close()
  const places = ['.plants-table', '#new-name'].map((place) => document.querySelector<HTMLElement>(place))
  setTimeout(() => places.find((place) => place?.isConnected)?.focus())
}

/**
 * Loads the next page when the end of the list comes into sight, but not during a search: with few results, the end is always in
 * sight, and one page after another would be loaded.
 */
function loadMore(): void {
  if (needle.value.trim() === '') load('page')
}
