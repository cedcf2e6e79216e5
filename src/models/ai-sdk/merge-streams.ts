import { setImmediate as nextTurn } from 'node:timers/promises'

/** The number of values waiting for the reader at which the sources pause (backpressure). */
const maxWaiting = 256

/** A source of values: passes them to `take`, awaits each promise that `take` returns, and resolves after the last value. */
export type Source<T> = (take: (value: T) => Promise<void> | undefined) => Promise<void>

/**
 * Yields the values of several sources, grouped by turn of the event loop: yielding each value alone would cost more than all
 * other work on it. The first failure is thrown after the values that came before it.
 */
export async function* merge<T>(sources: readonly Source<T>[]): AsyncIterable<readonly T[]> {
  let waiting: T[] = []
  let open = sources.length
  let failure: { readonly error: unknown } | undefined
  let something = Promise.withResolvers<void>()
  let room = Promise.withResolvers<void>()
  const take = (value: T) => {
    waiting.push(value)
    something.resolve()
    return waiting.length < maxWaiting ? undefined : room.promise
  }
  for (const source of sources) {
    source(take)
      .catch((error: unknown) => {
        failure ??= { error }
      })
      .finally(() => {
        open--
        something.resolve()
      })
  }
  try {
    while (waiting.length > 0 || (open > 0 && !failure)) {
      await something.promise
      await nextTurn()
      something = Promise.withResolvers()
      const group = waiting
      waiting = []
      room.resolve()
      room = Promise.withResolvers()
      if (group.length > 0) yield group
      if (open === 0 || failure) something.resolve()
    }
    if (failure) throw failure.error
  } finally {
    room.resolve()
  }
}
