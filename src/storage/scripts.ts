import type { Database } from 'better-sqlite3'
import type { GroupCommit } from './group-commit.ts'
import { queryEach, runSteps, type Steps, type Value } from './steps.ts'

/*
 * Scripts: transactions that are written once, and run on either engine (docs/decisions/0031-scripts.md). SQLite runs the steps of
 * a script without a pause; PostgreSQL waits for each statement.
 */

/** A transaction for either engine. It reads before it writes: an `ApiError` that it throws must come before its first write. */
export type Script<T> = Steps<T>

/** Runs scripts on a database. */
export interface Scripts {
  /** Runs a script that only reads. */
  read<T>(script: () => Script<T>): Promise<T>
  /**
   * Runs a script in a transaction, together with the writes of other requests. Resolves when the transaction is on disk. Over
   * PostgreSQL the row of the account is locked before, and a retry of the transaction runs the script again.
   * @throws ApiError of the script; 403 when the account was deleted; 503 or 507 when the database cannot write
   */
  write<T>(account: number, script: () => Script<T>): Promise<T>
}

/** A statement that both engines understand, or a part of one; `texts` are the parts of its text between its values. */
export interface Statement {
  readonly texts: readonly string[]
  readonly values: readonly Value[]
}

/** Makes a statement from a template. A statement in the place of a value is put into the text, with its own values. */
export function sql(parts: TemplateStringsArray, ...inserted: readonly (Value | Statement)[]): Statement {
  const texts = [parts[0] ?? '']
  const values: Value[] = []
  const append = (text: string) => texts.push(`${texts.pop()}${text}`)
  for (const [index, each] of inserted.entries()) {
    const after = parts[index + 1] ?? ''
    if (each !== null && typeof each === 'object' && 'texts' in each) {
      const [first = '', ...rest] = each.texts
      append(first)
      texts.push(...rest)
      values.push(...each.values)
      append(after)
    } else {
      values.push(each)
      texts.push(after)
    }
  }
  return { texts, values }
}

/** Joins statements, such as conditions or lists of values. @param separator the SQL between two of them */
export function joined(statements: readonly Statement[], separator: string): Statement {
  const texts = ['']
  for (const [index, each] of statements.entries()) {
    const [first = '', ...rest] = each.texts
    texts.push(`${texts.pop()}${index === 0 ? '' : separator}${first}`, ...rest)
  }
  return { texts, values: statements.flatMap(({ values }) => values) }
}

/** Runs a statement. @returns its rows; `RETURNING` gives the rows that a statement has changed */
export function rowsOf<Row extends object>({ texts, values }: Statement): Script<readonly Row[]> {
  const text = texts.reduce((before, after, index) => `${before}$${index}${after}`)
  return queryEach(text, [values])
}

/** Runs a statement. @returns its first row, if there is one */
export function* rowOf<Row extends object>(statement: Statement): Script<Row | undefined> {
  const [first] = yield* rowsOf<Row>(statement)
  return first
}

/** Runs scripts on a SQLite database. @param commit the group commit of all writes */
export class SqliteScripts implements Scripts {
  readonly #database: Database
  readonly #commit: GroupCommit

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
  }

  async read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.transaction(() => runSteps(this.#database, script()))()
  }

  write<T>(_account: number, script: () => Script<T>): Promise<T> {
    return this.#commit.run(() => runSteps(this.#database, script()))
  }
}
