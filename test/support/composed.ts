import { compose } from '../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import { type Steps, workAtOnce } from '../../src/work.ts'

/** Composes a prompt as a command does: at once. */
export function composedAtOnce(request: CompositionRequest): Composition {
  return atOnce(compose(request))
}

/** What steps come to, taken one by one: the result, and the units of work that each was said to cost. */
export function counted<T>(steps: Steps<T>): { readonly result: T; readonly units: readonly number[] } {
  const units: number[] = []
  for (;;) {
    const { done, value } = steps.next()
    if (done) return { result: value, units }
    units.push(value)
  }
}

/** What steps come to, taken at once, within a request's budget. */
export function atOnce<T>(steps: Steps<T>): T {
  return workAtOnce().run('messages', steps)
}
