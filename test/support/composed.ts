import { compose } from '../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import { type Steps, workAtOnce } from '../../src/work.ts'

/** Composes a prompt as a command does, without pauses for other work. */
export function composedAtOnce(request: CompositionRequest): Composition {
  return atOnce(compose(request))
}

/** Runs steps one by one. @returns the result, and the cost of each step in units of work */
export function counted<T>(steps: Steps<T>): { readonly result: T; readonly units: readonly number[] } {
  const units: number[] = []
  for (;;) {
    const { done, value } = steps.next()
    if (done) return { result: value, units }
    units.push(value)
  }
}

/** Runs all steps without a pause, within the budget of a request. @returns the result */
export function atOnce<T>(steps: Steps<T>): T {
  return workAtOnce().run('messages', steps)
}
