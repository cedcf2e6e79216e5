import type { Database, Statement as PreparedStatement } from 'better-sqlite3'

/*
 * Scripts: transactions that are written once, and run on either engine (docs/decisions/0031-scripts.md). SQLite runs the
 * statements of a script in one turn of the event loop; PostgreSQL waits for each statement.
 */

/** A value of a statement: `$1` stands for the first value. */
export type Value = string | number | Buffer | null

/** Runs a statement for each list of values, and passes the rows to `take`. With PostgreSQL, it gives a promise. */
export type Run = <Row extends object>(
  text: string,
  lists: readonly (readonly Value[])[],
  take: (rows: readonly Row[]) => void,
) => unknown

/**
 * A transaction for either engine: a generator that yields statements, and gets their rows. In a group commit, it reads before it
 * writes: an `ApiError` that it throws must come before its first write.
 */
export type Script<T> = Generator<(run: Run) => unknown, T, void>

/** One statement. @returns its rows */
export function query<Row extends object>(text: string, ...values: readonly Value[]): Script<readonly Row[]> {
  return queryEach(text, [values])
}

/** The most lists of values that run at once: between them, a long transaction over SQLite lets other requests run. */
const listsAtOnce = 50

/** One statement for each list of values. PostgreSQL gets many of them at once. @returns their rows, in the order of the lists */
export function* queryEach<Row extends object>(
  text: string,
  lists: readonly (readonly Value[])[],
): Script<readonly Row[]> {
  let found: readonly Row[] = []
  for (let at = 0; at < lists.length; at += listsAtOnce) {
    const some = lists.length <= listsAtOnce ? lists : lists.slice(at, at + listsAtOnce)
    yield (run) =>
      run<Row>(text, some, (rows) => {
        found = at === 0 ? rows : [...found, ...rows]
      })
  }
  return found
}

/** Prepared statements by their text: to prepare a statement takes as long as to find a key with it. `never` fits each type of rows. */
type Prepared = Map<string, PreparedStatement<[object], never>>
const preparedOf = new WeakMap<Database, Prepared>()
/** A full map is emptied: lists of values make texts of any length. */
const maxPrepared = 200

function prepare(database: Database, text: string): PreparedStatement<[object], never> {
  const prepared: Prepared = preparedOf.get(database) ?? new Map()
  preparedOf.set(database, prepared)
  const known = prepared.get(text)
  if (known) return known
  if (prepared.size >= maxPrepared) prepared.clear()
  const statement = database.prepare<[object], never>(text)
  prepared.set(text, statement)
  return statement
}

/** Runs the statements of a script on a database of SQLite. */
export function runOn(database: Database): Run {
  return <Row extends object>(
    text: string,
    lists: readonly (readonly Value[])[],
    take: (rows: readonly Row[]) => void,
  ) => {
    const statement = prepare(database, text)
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
}

/** Runs a script on a database of SQLite. @throws the errors of SQLite and of the script */
export function runScript<T>(database: Database, script: Script<T>): T {
  const run = runOn(database)
  for (;;) {
    const step = script.next()
    if (step.done) return step.value
    step.value(run)
  }
}

/** Runs scripts on a database. */
export interface Scripts {
  /** Runs a script that only reads. */
  read<T>(script: () => Script<T>): Promise<T>
  /**
   * Reads one of many portions. Over SQLite, the portions of all callers follow each other, each in a turn of the event loop of its
   * own, so that short requests run between them.
   */
  readPortion<T>(script: () => Script<T>): Promise<T>
  /**
   * Runs a script in a transaction, together with the writes of other requests. Resolves when the transaction is on disk. Over
   * PostgreSQL the row of the account is locked before, and a retry of the transaction runs the script again.
   * @throws ApiError of the script; 403 when the account was deleted; 503 or 507 when the database cannot write
   */
  write<T>(account: number, script: () => Script<T>): Promise<T>
  /** As `write`, for a script of many rows: over SQLite a long transaction (`long-write.ts`), with other requests between its statements. */
  writeLong<T>(account: number, script: () => Script<T>): Promise<T>
  /**
   * Runs a script of rows that no reply shows, in a short transaction beside the writes of requests: pieces of large values, and rows
   * to remove. A power cut may undo it, until a later `write` is on disk. No row of an account is locked.
   */
  writeAside<T>(script: () => Script<T>): Promise<T>
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
