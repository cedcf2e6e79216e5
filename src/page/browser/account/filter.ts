import { type Signal, signal } from '@preact/signals'
import { identity } from '../base/session.ts'

/** The fields of a form that filters a list: the typed values, and the applied values. */
export class Filter<T extends object> {
  readonly #none: T
  /** The typed values. A list that arrives while the reader types must not reset them. */
  readonly typed: Signal<T>
  /** The applied values. */
  readonly chosen: Signal<T>

  /** @param none the values that filter nothing */
  constructor(none: T) {
    this.#none = none
    this.typed = signal(none)
    this.chosen = signal(none)
    identity.subscribe(this.reset)
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
