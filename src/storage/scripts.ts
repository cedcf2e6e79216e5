import type { Database, Statement as SqliteStatement } from 'better-sqlite3'
import type { GroupCommit } from './group-commit.ts'

/*
 * Scripts: transactions that are written once, and run on either engine (docs/decisions/0031-scripts.md). A script is a generator
 * that yields statements and gets their rows. SQLite runs a script without a pause; PostgreSQL waits for each statement.
 */

/** A value in a statement or a row. */
export type Value = string | number | null | Uint8Array

/** A row as the engines return it. */
export type Row = Readonly<Record<string, Value>>

/** A statement that both engines understand; `texts` are the parts of its text between its values. */
export interface Statement {
  readonly texts: readonly string[]
  readonly values: readonly Value[]
}

/** A transaction for either engine. It reads before it writes: an `ApiError` that it throws must come before its first write. */
export type Script<T> = Generator<Statement, T, readonly Row[]>

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

/** A number in a column of a row. @throws Error for another type, as the other readers of columns */
export function numberIn(row: Row, column: string): number {
  const value = row[column]
  if (typeof value === 'number') return value
  throw new Error(`the column ${column} is no number`)
}

/** A text in a column of a row. */
export function textIn(row: Row, column: string): string {
  const value = row[column]
  if (typeof value === 'string') return value
  throw new Error(`the column ${column} is no text`)
}

/** Bytes in a column of a row. */
export function bytesIn(row: Row, column: string): Uint8Array {
  const value = row[column]
  if (value instanceof Uint8Array) return value
  throw new Error(`the column ${column} has no bytes`)
}

/** Reads a column that may be null. @param read the reader of a value that is not null */
export function nullable<T>(row: Row, column: string, read: (row: Row, column: string) => T): T | null {
  return row[column] === null ? null : read(row, column)
}

/** The most prepared statements of a connection. Texts with lists of values differ in the length of the lists. */
const maxPrepared = 200

/** Runs scripts on a SQLite database. @param commit the group commit of all writes */
export class SqliteScripts implements Scripts {
  readonly #database: Database
  readonly #commit: GroupCommit
  readonly #prepared = new Map<string, SqliteStatement<Value[], Row>>()

  constructor(database: Database, commit: GroupCommit) {
    this.#database = database
    this.#commit = commit
  }

  async read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.transaction(() => this.run(script()))()
  }

  write<T>(_account: number, script: () => Script<T>): Promise<T> {
    return this.#commit.run(() => this.run(script()))
  }

  /** Runs a script within a transaction of the caller. */
  run<T>(script: Script<T>): T {
    let next = script.next([])
    while (!next.done) next = script.next(this.#rowsOf(next.value))
    return next.value
  }

  #rowsOf({ texts, values }: Statement): readonly Row[] {
    const text = texts.join('?')
    let statement = this.#prepared.get(text)
    if (!statement) {
      if (this.#prepared.size >= maxPrepared) this.#prepared.clear()
      statement = this.#database.prepare<Value[], Row>(text)
      this.#prepared.set(text, statement)
    }
    if (statement.reader) return statement.all(...values)
    statement.run(...values)
    return []
  }
}
