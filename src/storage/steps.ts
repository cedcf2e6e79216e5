import type { Database } from 'better-sqlite3'

/*
 * Steps are statements that both engines understand, in the order in which they run. A generator yields them, so that one function
 * is enough for both engines: SQLite runs all steps of a transaction in one turn of the event loop, and PostgreSQL waits for each.
 */

/** A value of a statement: `$1` stands for the first value. */
export type Value = string | number | Buffer | null

/** Runs a statement for each list of values, and passes the rows to `take`. With PostgreSQL, it gives a promise. */
export type Run = <Row extends object>(
  text: string,
  lists: readonly (readonly Value[])[],
  take: (rows: readonly Row[]) => void,
) => unknown

/** Steps with a result. */
export type Steps<T> = Generator<(run: Run) => unknown, T, void>

/** One statement. @returns its rows */
export function query<Row extends object>(text: string, ...values: readonly Value[]): Steps<readonly Row[]> {
  return queryEach(text, [values])
}

/** One statement for each list of values. PostgreSQL gets all of them at once. @returns their rows, in the order of the lists */
export function* queryEach<Row extends object>(
  text: string,
  lists: readonly (readonly Value[])[],
): Steps<readonly Row[]> {
  let found: readonly Row[] = []
  yield (run) =>
    run<Row>(text, lists, (rows) => {
      found = rows
    })
  return found
}

/** Runs steps on a database of SQLite. @throws the errors of SQLite and of the steps */
export function runSteps<T>(database: Database, steps: Steps<T>): T {
  const run: Run = <Row extends object>(
    text: string,
    lists: readonly (readonly Value[])[],
    take: (rows: readonly Row[]) => void,
  ) => {
    const statement = database.prepare<[object], Row>(text)
    take(
      lists.flatMap((values) => {
        // The name of the value `$1` is `1`.
        const named = Object.fromEntries(values.map((value, index) => [index + 1, value]))
        if (statement.reader) return statement.all(named)
        statement.run(named)
        return []
      }),
    )
  }
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    step.value(run)
  }
}
