/** Yields what several sources yield, as it comes; the first failure is thrown. None is asked for more than is taken. */
export async function* merge<T>(sources: readonly AsyncIterable<T>[]): AsyncIterable<T> {
  const [only] = sources
  if (only && sources.length === 1) return yield* only
  const iterators = sources.map((source) => source[Symbol.asyncIterator]())
  const ready: { readonly iterator: AsyncIterator<T>; readonly step: IteratorResult<T> }[] = []
  const failures: unknown[] = []
  let wake = () => {}
  const pull = (iterator: AsyncIterator<T>) =>
    iterator
      .next()
      .then(
        (step) => ready.push({ iterator, step }),
        (error) => failures.push(error),
      )
      .then(() => wake())
  try {
    let open = iterators.length
    for (const iterator of iterators) pull(iterator)
    while (open > 0) {
      if (failures.length > 0) throw failures[0]
      const next = ready.shift()
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      } else if (next.step.done) open -= 1
      else {
        yield next.step.value
        pull(next.iterator)
      }
    }
  } finally {
    for (const iterator of iterators) iterator.return?.().catch(() => {})
  }
}
