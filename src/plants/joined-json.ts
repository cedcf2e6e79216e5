import type { Database, Statement } from 'better-sqlite3'

/** The plants of a page that come from one range. */
export interface RangePart {
  /** The text of a JSON array. */
  readonly json: string
  readonly count: number
  /** The id of the last plant; may be undefined if the range has fewer plants than the limit. */
  readonly lastId: number | undefined
  /** Whether the range has more plants. */
  readonly isLonger: boolean
}

/** The plants between two ids as a JSON array, which is null without plants, and the number of these plants. */
interface BetweenRow {
  readonly json: string | null
  readonly count: number
}

/**
 * Reads plants of one account as one JSON array, which SQLite joins from the texts of the rows. If the rows were read one by one
 * and joined here, a page of 100 plants after a random id would cost 66 % more CPU time (docs/performance.md).
 */
export class JoinedJson {
  readonly #ends: Statement<[number, number, number], number>
  readonly #between: Statement<[number, number, number], BetweenRow>

  /** @param plant SQL for a plant's JSON */
  constructor(database: Database, plant: string) {
    this.#ends = database
      .prepare<[number, number, number], number>(
        'SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT 2 OFFSET ?',
      )
      .pluck()
    // The scan of the primary key returns the rows by id. An ORDER BY in group_concat would sort again, and take twice as long.
    this.#between = database.prepare(`
      SELECT '[' || group_concat(${plant}, ',') || ']' AS json, count(*) AS count
      FROM plants NOT INDEXED WHERE account = ? AND id > ? AND id <= ?`)
  }

  /** At most `limit` plants after an id. */
  read(account: number, afterId: number, limit: number): RangePart {
    const [lastId, nextId] = this.#ends.all(account, afterId, limit - 1)
    const { json, count } = this.#between.get(account, afterId, lastId ?? Number.POSITIVE_INFINITY) ?? nothing
    return { json: json ?? '[]', count, lastId, isLonger: nextId !== undefined }
  }
}

const nothing: BetweenRow = { json: null, count: 0 }
