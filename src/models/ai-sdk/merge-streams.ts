import { setImmediate as nextTurn } from 'node:timers/promises'

/** When this number of values waits for the reader, the sources pause (backpressure). */
const maxWaiting = 256

/** A source passes its values to `take`, awaits each promise that `take` returns, and resolves after its last value. */
export type Source<T> = (take: (value: T) => Promise<void> | undefined) => Promise<void>

/**
 * Yields the values of several sources in groups, one group for each turn of the event loop. To yield each value alone would cost
 * more than all other work on the value. The first failure is thrown after the values that came before the failure.
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
