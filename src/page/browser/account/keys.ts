import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { copy } from '../ui/copy.ts'
import { textIn } from '../ui/field.ts'
import { formatMoment, formatNumber } from '../ui/format.ts'
import { Revocation, Rotation } from './key-dialogs.ts'
import { KeyForm } from './key-form.ts'
import { isOwn, type Key, keys, loadKeys, type NewKey, newKey } from './key-list.ts'
import { formatAmount, titleOf } from './limit-names.ts'
import { Part } from './part.ts'

type Opened = { readonly what: 'form' } | { readonly what: 'rotation' | 'revocation'; readonly key: Key }

const opened = signal<Opened | undefined>(undefined)
const needle = signal('')

/** The number of keys that are shown at first, and that each click on the button adds. */
const portion = 100
const shownCount = signal(portion)

/** If there are more keys than this, a search field is shown. */
const manyKeys = 10

/** The account's keys, and the ways to make, rotate and revoke a key. A new key is shown once. */
export function View(): VNode {
  useEffect(() => {
    void loadKeys()
    return close
  }, [])
  const { value: all } = keys.answer
  const tools = html`
    <span class="row">
      <button type="button" onClick=${loadKeys}>Reload</button>
      <button type="button" class="main" onClick=${() => (opened.value = { what: 'form' })}>Make a key …</button>
    </span>
  `
  const help =
    'A program with a key may do what the scopes of the key allow, in the name of this account. Give each program its own key, so that you can revoke that key alone.'
  return html`
    <${Part} name="keys" title="Keys" help=${help} request=${keys} load=${loadKeys} tools=${tools}
      above=${newKey.value && html`<${NewKeyPanel} key=${newKey.value.id} made=${newKey.value} />`}>
      ${all && html`<${List} all=${all} />`}
      <${Over} />
    <//>
  `
}

function List({ all }: { readonly all: readonly Key[] }): VNode {
  const wanted = needle.value.trim().toLowerCase()
  const found = all.filter(({ name, prefix }) => `${prefix} ${name ?? ''}`.toLowerCase().includes(wanted))
  const shown = found.slice(0, shownCount.value)
  return html`
    ${
      all.length > manyKeys &&
      html`<div class="search" role="search"><label for="key-search">Search by name or beginning</label>
        <input id="key-search" type="search" dir="auto" value=${needle.value} onInput=${(event: Event) => (needle.value = textIn(event))} /></div>`
    }
    <p class="faint" role="status">${formatNumber(found.length)} ${found.length === 1 ? 'key' : 'keys'}</p>
    <ul class="bare cards">${shown.map((key) => html`<li key=${key.id}><${Card} of=${key} /></li>`)}</ul>
    ${found.length > shown.length && html`<p><button type="button" onClick=${() => (shownCount.value += portion)}>Show more keys</button></p>`}
  `
}

function Card({ of: key }: { readonly of: Key }): VNode {
  const { id, prefix, name, scopes, created, expires, last_used: lastUsed } = key
  return html`
    <article class="panel column" aria-labelledby=${id}>
      <h3 id=${id}>${name === null ? html`<span class="faint">No name</span>` : html`<span dir="auto">${name}</span>`} <code>${prefix}…</code>
        ${isOwn(key) && html` <span class="tag own">you are signed in with it</span>`}</h3>
      <p class="scopes">${scopes.map((scope) => html`<span key=${scope} class="tag">${scope}</span> `)}</p>
      <dl class="pairs">
        <div><dt>Made</dt><dd>${formatMoment(created)}</dd></div>
        <div><dt>Last used</dt><dd>${lastUsed === null ? 'never' : formatMoment(lastUsed)}</dd></div>
        <div><dt>Ends</dt><dd>${expires === null ? 'never' : formatMoment(expires)}</dd></div>
        <div><dt>Limits</dt><dd>${limitsOf(key)}</dd></div>
        <div><dt>Models</dt><dd><${Models} models=${key.models} /></dd></div>
      </dl>
      <p class="row">
        <button type="button" onClick=${() => (opened.value = { what: 'rotation', key })}>Rotate …<span class="unseen"> ${prefix}</span></button>
        <button type="button" class="danger" onClick=${() => (opened.value = { what: 'revocation', key })}>Revoke …<span class="unseen"> ${prefix}</span></button>
      </p>
    </article>
  `
}

function limitsOf({ limits }: Key): string {
  const set = Object.entries(limits).map(([limit, value]) => `${titleOf(limit)}: ${formatAmount(limit, value)}`)
  return set.length === 0 ? "the account's alone" : set.join('; ')
}

/** The models of a key. A list may have 100 ids of 255 characters each, so a long list is folded. */
function Models({ models }: Pick<Key, 'models'>): VNode | string {
  if (models === null) return "all of the account's"
  const text = models.join(', ')
  if (text.length <= 200) return html`<bdi>${text}</bdi>`
  return html`<details><summary>${formatNumber(models.length)} models</summary><bdi>${text}</bdi></details>`
}

function Over(): VNode | null {
  const { value: over } = opened
  if (!over) return null
  if (over.what === 'form') return html`<${KeyForm} onClose=${close} />`
  return html`<${over.what === 'rotation' ? Rotation : Revocation} key=${over.key.id} of=${over.key} onClose=${close} />`
}

function close(): void {
  opened.value = undefined
}

/** Shows a new key until the reader confirms that the key is saved. The panel stays when the reader visits another view. */
function NewKeyPanel({ made }: { readonly made: NewKey }): VNode {
  const field = useRef<HTMLInputElement>(null)
  // The focus is set after a timeout, because the closing dialog first returns the focus to the button that opened the dialog.
  useEffect(() => {
    const timer = setTimeout(() => field.current?.focus())
    return () => clearTimeout(timer)
  }, [])
  return html`
    <div class="panel new-key" role="group" aria-labelledby="new-key-title">
      <h3 id="new-key-title">The new key${made.name !== null && html`: <bdi>${made.name}</bdi>`}</h3>
      <p>Copy it now, to where it is kept safe. <strong>It is not shown again</strong>, here or anywhere else: the service does not keep it.</p>
      ${isOwn(made) && html`<p>You are signed in with it from now on, in this tab.</p>`}
      <div class="row key">
        <label class="unseen" for="new-key">New key</label>
        <input id="new-key" ref=${field} readonly spellcheck=${false} value=${made.key} onFocus=${() => field.current?.select()} />
        <button type="button" class="main" onClick=${() => copy(made.key, 'The key')}>Copy</button>
        <button type="button" onClick=${dismiss}>I have kept it</button>
      </div>
    </div>
  `
}

function dismiss(): void {
  newKey.value = undefined
  document.getElementById('keys-title')?.focus()
}
