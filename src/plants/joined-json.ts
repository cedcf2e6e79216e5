import type { Database, Statement } from 'better-sqlite3'

/** A part of a page: plants that stand one behind the other in a list. */
export interface Piece {
  /** An array. */
  readonly json: string
  readonly count: number
  /** The id of the last plant; where there are not as many as were asked for nobody needs it. */
  readonly lastId: number | undefined
  /** Whether the stretch has more. */
  readonly isLonger: boolean
}

/** Plants between two ids, as a JSON array where there are any, and how many they are. */
interface BetweenRow {
  readonly json: string | null
  readonly count: number
}

/**
 * Reads plants of one account as one JSON array, which SQLite joins out of the rows' texts. Where the rows are read one by
 * one and joined here, a page of 100 plants from a random place costs 66 % more CPU time (docs/performance.md).
 */
export class JoinedJson {
  readonly #ends: Statement<[number, number, number], number>
  readonly #between: Statement<[number, number, number], BetweenRow>

  /** @param plant how a plant is shown, as SQL */
  constructor(database: Database, plant: string) {
    this.#ends = database
      .prepare<[number, number, number], number>(
        'SELECT id FROM plants WHERE account = ? AND id > ? ORDER BY id LIMIT 2 OFFSET ?',
      )
      .pluck()
    // The primary key brings the rows by id: told to sort them, SQLite would take as long once more for what is in order already.
    this.#between = database.prepare(`
      SELECT '[' || group_concat(${plant}, ',') || ']' AS json, count(*) AS count
      FROM plants NOT INDEXED WHERE account = ? AND id > ? AND id <= ?`)
  }

  /** The first plants after an id, at most so many. */
  read(account: number, afterId: number, limit: number): Piece {
    const [lastId, nextId] = this.#ends.all(account, afterId, limit - 1)
    const { json, count } = this.#between.get(account, afterId, lastId ?? Number.POSITIVE_INFINITY) ?? nothing
    return { json: json ?? '[]', count, lastId, isLonger: nextId !== undefined }
  }
}

const nothing: BetweenRow = { json: null, count: 0 }
