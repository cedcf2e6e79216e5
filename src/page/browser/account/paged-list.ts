import { type Signal, signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { identity, may } from '../base/session.ts'
import { DisappearingButton } from '../ui/disappearing-button.ts'
import { formatNumber } from '../ui/format.ts'
import { LatestRequest } from '../ui/latest-request.ts'
import { loadKeyNames } from './key-names.ts'
import { Part, type PartProps } from './part.ts'

/** The fields of the form that filters a list. An empty field filters nothing. Days are in the reader's time zone. */
export interface ListFilter {
  readonly account: string
}

/** The loaded records by page, and the filter that they match. */
export interface Pages<F, R> {
  readonly filter: F
  readonly pages: readonly (readonly R[])[]
  readonly hasMore: boolean
}

const pageLength = 50

/** A list that is loaded page by page, and the fields of the form that filters it. */
export class PagedList<F extends ListFilter, R extends { readonly id: string }> extends LatestRequest<Pages<F, R>> {
  readonly #path: string
  readonly #none: F
  readonly #fieldsOf: (filter: F) => Readonly<Record<string, string | undefined>>
  /** The typed values. A list that arrives while the reader types must not reset them. */
  readonly typed: Signal<F>
  /** The applied values. */
  readonly chosen: Signal<F>

  /**
   * @param none the values that filter nothing
   * @param fieldsOf the fields of the query for a filter, without those that every list has
   */
  constructor(path: string, none: F, fieldsOf: (filter: F) => Readonly<Record<string, string | undefined>>) {
    super()
    this.#path = path
    this.#none = none
    this.#fieldsOf = fieldsOf
    this.typed = signal(none)
    this.chosen = signal(none)
    identity.subscribe(this.reset)
  }

  /** Loads the first page of the records that match the applied filter. */
  readonly load = (): Promise<void> => this.#add({ filter: this.chosen.value, pages: [], hasMore: false })

  /** Adds the next page. */
  readonly more = async (): Promise<void> => {
    if (this.answer.value) await this.#add(this.answer.value)
  }

  #add({ filter, pages }: Pages<F, R>): Promise<void> {
    const query = new URLSearchParams({ limit: String(pageLength) })
    const fields = { ...this.#fieldsOf(filter), account: filter.account.trim(), after: pages.at(-1)?.at(-1)?.id }
    for (const [name, value] of Object.entries(fields)) if (value) query.set(name, value)
    return this.ask(async (signal) => {
      const { data, has_more } = await getJson<ListAnswer<R>>(`${this.#path}?${query}`, { signal })
      return { filter, pages: [...pages, data], hasMore: has_more }
    })
  }

  /** Removes the filter. */
  readonly reset = (): void => {
    this.typed.value = this.#none
    this.chosen.value = this.#none
  }

  /** Handles input: reads the field by its name. */
  readonly type = ({ target }: Event): void => {
    if (!(target instanceof HTMLInputElement || target instanceof HTMLSelectElement)) return
    this.typed.value = { ...this.typed.value, [target.name]: target.value }
  }

  /** Applies the typed values. */
  readonly choose = (): void => {
    this.chosen.value = this.typed.value
  }
}

/** A page of a list of the service. */
export interface ListAnswer<R> {
  readonly data: readonly R[]
  readonly has_more: boolean
}

interface ListPartProps<F extends ListFilter, R extends { readonly id: string }>
  extends Omit<PartProps, 'request' | 'load'> {
  readonly list: PagedList<F, R>
  /** What a record is, in the singular and in the plural. */
  readonly one: string
  readonly many: string
  /** The text for a list without records. */
  readonly nothing: string
  /** What the number of records is followed by, when there are more records, and when all are shown. */
  readonly more: string
  readonly end: string
  /** The fields of the filter, without the account. */
  readonly fields: ComponentChildren
  /** What stands in an empty field for the account. */
  readonly anyAccount: string | undefined
}

/** A part of the account's view with a list, and the form that filters it. */
export function ListPart<F extends ListFilter, R extends { readonly id: string }>(props: ListPartProps<F, R>): VNode {
  const { list, fields, anyAccount } = props
  useEffect(() => void list.load(), [list.chosen.value])
  useEffect(() => void loadKeyNames(), [])
  // The event `change` of a field applies the filter, so the form has no button.
  const form = html`
    <form class="row filters" onInput=${list.type} onChange=${list.choose} onSubmit=${(event: Event) => event.preventDefault()}>
      ${fields}
      ${
        may('admin') &&
        html`<label>Account <input name="account" value=${list.typed.value.account} placeholder=${anyAccount} autocomplete="off" spellcheck=${false} dir="auto" /></label>`
      }
    </form>
  `
  return html`
    <${Part} ...${props} request=${list} load=${list.load} above=${form}>${list.answer.value && html`<${Listed} ...${props} />`}<//>
  `
}

function Listed<F extends ListFilter, R extends { readonly id: string }>(props: ListPartProps<F, R>): VNode {
  const { list, one, many, nothing, more, end, children } = props
  const { filter, pages, hasMore } = list.answer.value ?? { filter: {}, pages: [], hasMore: false }
  const count = pages.reduce((sum, page) => sum + page.length, 0)
  if (count === 0) {
    const isFiltered = Object.values(filter).some((value) => value !== '')
    return html`
      <p class="empty">${isFiltered ? `No ${one} matches.` : nothing}
        ${isFiltered && html` <${DisappearingButton} within="part" onClick=${list.reset}>Show all<//>`}</p>
    `
  }
  return html`
    ${children}
    <p class="row more">
      <span role="status">${formatNumber(count)} ${count === 1 ? one : many} shown${hasMore ? more : end}</span>
      ${hasMore && html`<${DisappearingButton} within="part" isBusy=${list.isWaiting.value} onClick=${list.more}>More<//>`}
    </p>
  `
}
