import type { Run, Steps, Value } from '../steps.ts'
import type { Queries } from './database.ts'

/** Runs steps on a connection or in a transaction of PostgreSQL. @throws the errors of the database and of the steps */
export async function runSteps<T>(sql: Queries, steps: Steps<T>): Promise<T> {
  const run: Run = async <Row extends object>(
    text: string,
    lists: readonly (readonly Value[])[],
    take: (rows: readonly Row[]) => void,
  ) => {
    const results = await Promise.all(lists.map((values) => sql.unsafe<Row[]>(text, [...values], { prepare: true })))
    take(results.flat())
  }
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
    await step.value(run)
  }
}
