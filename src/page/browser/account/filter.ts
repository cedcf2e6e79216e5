import { type Signal, signal } from '@preact/signals'
import { identity } from '../base/session.ts'

/** The fields of a form that filters a list, as they are typed and as the list is asked for. */
export class Filter<T extends object> {
  readonly #none: T
  /** What stands in the fields: a list that comes while somebody types must not take that away. */
  readonly typed: Signal<T>
  /** The fields that somebody has left. */
  readonly chosen: Signal<T>

  /** @param none the fields where nothing is filtered */
  constructor(none: T) {
    this.#none = none
    this.typed = signal(none)
    this.chosen = signal(none)
    identity.subscribe(this.reset)
  }

  /** Filters nothing any more. */
  readonly reset = (): void => {
    this.typed.value = this.#none
    this.chosen.value = this.#none
  }

  /** Takes what is typed into a field, by its name. */
  readonly type = ({ target }: Event): void => {
    if (!(target instanceof HTMLInputElement || target instanceof HTMLSelectElement)) return
    this.typed.value = { ...this.typed.value, [target.name]: target.value }
  }

  /** Asks for what is typed. */
  readonly choose = (): void => {
    this.chosen.value = this.typed.value
  }
}
