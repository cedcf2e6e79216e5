import type { Transaction } from '../storage/postgres/database.ts'
import { dayOf } from '../time.ts'
import { Bucket } from './bucket.ts'
import type { Tally } from './counting.ts'

/** Chat requests in flight and reserved tokens that one replica holds for a subject. */
export interface Share {
  chats: number
  reserved: number
}

/** A replica's share, and tokens that its next write adds to the tokens taken in this minute. */
export interface Holding extends Share {
  tokens: number
}

/** The subjects to read, and the replica that reads them. */
export interface CountsQuery {
  readonly subjects: readonly string[]
  /** The subjects whose spent tokens are read as well. */
  readonly spendingSubjects: readonly string[]
  readonly replica: string
  readonly holdings: ReadonlyMap<string, Holding>
}

interface BucketsRow {
  readonly subject: string
  readonly requestsTaken: number
  readonly requestsAt: number
  readonly tokensTaken: number
  readonly tokensAt: number
}

interface ShareRow extends Share {
  readonly subject: string
}

interface SpendRow {
  readonly subject: string
  readonly day: string
  readonly tokens: number
}

const none: Holding = { chats: 0, reserved: 0, tokens: 0 }
const dayMs = 24 * 60 * 60 * 1000

/** The counts of all replicas for a subject, while the subject's row is locked. */
export class SharedTally implements Tally {
  readonly subject: string
  readonly requests: Bucket
  readonly tokens: Bucket
  chats: number
  reserved: number
  readonly spending: Tally['spending']
  /** The holding of this replica when the row was read; undefined only if the holding was empty. */
  readonly previous: Holding | undefined
  readonly #others: Share

  /** @param others the sum of the other replicas' shares */
  constructor(row: BucketsRow, others: Share, previous: Holding | undefined, spent: readonly SpendRow[]) {
    const { chats, reserved, tokens } = previous ?? none
    this.subject = row.subject
    this.requests = new Bucket(row.requestsTaken, row.requestsAt)
    this.tokens = new Bucket(row.tokensTaken, row.tokensAt)
    this.tokens.correct(tokens)
    this.previous = previous
    this.#others = others
    this.chats = others.chats + chats
    this.reserved = others.reserved + reserved
    this.spending = { today: (now) => spentOn(spent, dayOf(now)), thisMonth: (now) => spentOn(spent, monthOf(now)) }
  }

  /** The share of this replica, with the changes since the row was read. */
  get ownShare(): Share {
    return { chats: this.chats - this.#others.chats, reserved: this.reserved - this.#others.reserved }
  }
}

/**
 * Sets READ COMMITTED, whatever the database's default isolation is: after it has waited for a lock, the transaction continues
 * with the newest rows. A serializable transaction would fail and be retried, and replicas that lock the same row could time out.
 */
export function readCommitted(sql: Transaction): Promise<unknown> {
  // `execute` sends the statement immediately, before the next query.
  return sql`SET TRANSACTION ISOLATION LEVEL READ COMMITTED`.execute()
}

/**
 * Locks the rows of subjects until the transaction ends, and reads the counts of all replicas. The queries are pipelined, and
 * PostgreSQL runs them in order. So the clock is read after the rows are locked, and the time of this transaction is never before
 * the time of the transaction that locked the rows before.
 */
export async function countRows(
  sql: Transaction,
  query: CountsQuery,
): Promise<{ readonly tallies: ReadonlyMap<string, SharedTally>; readonly now: number }> {
  const { subjects, spendingSubjects, replica, holdings } = query
  const asked = list(subjects.map((subject) => ({ subject })))
  const [rows, clock, shares, spent] = await Promise.all([
    sql<BucketsRow[]>`
      SELECT subject, requests_taken AS "requestsTaken", requests_at AS "requestsAt",
        tokens_taken AS "tokensTaken", tokens_at AS "tokensAt" FROM limit_counts
      WHERE subject IN (SELECT subject FROM json_to_recordset(${asked}::text::json) AS asked (subject TEXT))
      ORDER BY subject FOR UPDATE`,
    sql<{ now: number }[]>`SELECT ${clockOf(sql)} AS now`,
    sql<ShareRow[]>`
      SELECT subject, chats, reserved_tokens AS reserved FROM limit_shares
      WHERE subject IN (SELECT subject FROM json_to_recordset(${asked}::text::json) AS asked (subject TEXT))
      AND replica <> ${replica} AND expires > ${clockOf(sql)}`,
    spendingSubjects.length === 0
      ? []
      : sql<SpendRow[]>`
          SELECT subject, day, tokens FROM spend
          WHERE subject IN (
            SELECT subject FROM json_to_recordset(${list(spendingSubjects.map((subject) => ({ subject })))}::text::json)
            AS asked (subject TEXT)
          )
          -- On the first day of a month the month before is read too: the clock may have been read in that month.
          AND day >= to_char((clock_timestamp() - INTERVAL '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-01')`,
  ])
  if (rows.length < subjects.length) {
    await sql`
      INSERT INTO limit_counts (subject, requests_taken, requests_at, tokens_taken, tokens_at)
      SELECT subject, 0, 0, 0, 0 FROM json_to_recordset(${asked}::text::json) AS asked (subject TEXT)
      ON CONFLICT DO NOTHING`
    return countRows(sql, query)
  }
  const sharesOf = Map.groupBy(shares, ({ subject }) => subject)
  const spentBy = Map.groupBy(spent, ({ subject }) => subject)
  const tallies = rows.map((row) => {
    const others = sumOf(sharesOf.get(row.subject) ?? [])
    const previous = holdings.get(row.subject)
    // The holding is copied, because requests that end while the transaction runs change the original.
    return new SharedTally(row, others, previous && { ...previous }, spentBy.get(row.subject) ?? [])
  })
  return { tallies: new Map(tallies.map((tally) => [tally.subject, tally])), now: clock[0]?.now ?? 0 }
}

/** Writes the counts of subjects. @param expires milliseconds since 1970 until which the replica's share counts */
export async function saveRows(
  sql: Transaction,
  tallies: readonly SharedTally[],
  replica: string,
  expires: number,
): Promise<void> {
  const counts = tallies.map(({ subject, requests, tokens }) => ({
    subject,
    requests_taken: requests.state.taken,
    requests_at: requests.state.at,
    tokens_taken: tokens.state.taken,
    tokens_at: tokens.state.at,
  }))
  const shares = tallies
    .filter(({ previous, ownShare }) => previous !== undefined || holdsAny(ownShare))
    .map(({ subject, ownShare }) => ({ subject, chats: ownShare.chats, reserved_tokens: ownShare.reserved }))
  await Promise.all([
    sql`
      UPDATE limit_counts SET requests_taken = x.requests_taken, requests_at = x.requests_at,
        tokens_taken = x.tokens_taken, tokens_at = x.tokens_at
      FROM json_to_recordset(${list(counts)}::text::json) AS x (subject TEXT, requests_taken DOUBLE PRECISION,
        requests_at BIGINT, tokens_taken DOUBLE PRECISION, tokens_at BIGINT)
      WHERE limit_counts.subject = x.subject`,
    shares.length === 0
      ? undefined
      : sql`
          INSERT INTO limit_shares (subject, replica, chats, reserved_tokens, expires)
          SELECT subject, ${replica}, chats, reserved_tokens, ${expires}::bigint
          FROM json_to_recordset(${list(shares)}::text::json)
          AS x (subject TEXT, chats BIGINT, reserved_tokens BIGINT)
          ON CONFLICT (subject, replica) DO UPDATE SET chats = excluded.chats,
            reserved_tokens = excluded.reserved_tokens, expires = excluded.expires`,
  ])
}

/**
 * Removes expired shares of replicas, and counts that have not changed for a day: their tokens have nearly always refilled.
 * Locked rows are skipped, so that no request waits.
 * @param maxRows rows of each kind
 * @returns the number of removed rows
 */
export async function removeIdleRows(sql: Transaction, maxRows: number): Promise<number> {
  const shares = await sql`
    WITH idle AS (
      SELECT subject, replica FROM limit_shares WHERE expires < ${clockOf(sql)} LIMIT ${maxRows} FOR UPDATE SKIP LOCKED
    )
    DELETE FROM limit_shares USING idle
    WHERE limit_shares.subject = idle.subject AND limit_shares.replica = idle.replica`
  const counts = await sql`
    WITH idle AS (
      SELECT subject FROM limit_counts
      WHERE requests_at < ${clockOf(sql)} - ${dayMs}::bigint AND tokens_at < ${clockOf(sql)} - ${dayMs}::bigint
      LIMIT ${maxRows} FOR UPDATE SKIP LOCKED
    )
    DELETE FROM limit_counts USING idle WHERE limit_counts.subject = idle.subject`
  return shares.count + counts.count
}

/** Whether a share is not empty. */
export function holdsAny({ chats, reserved }: Share): boolean {
  return chats !== 0 || reserved !== 0
}

/** The time in milliseconds by the database's clock, as SQL. */
function clockOf(sql: Transaction) {
  return sql`(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
}

function sumOf(shares: readonly Share[]): Share {
  return {
    chats: shares.reduce((sum, { chats }) => sum + chats, 0),
    reserved: shares.reduce((sum, { reserved }) => sum + reserved, 0),
  }
}

function spentOn(spent: readonly SpendRow[], days: string): number {
  return spent.reduce((sum, { day, tokens }) => (day.startsWith(days) ? sum + tokens : sum), 0)
}

function monthOf(time: number): string {
  return dayOf(time).slice(0, 7)
}

/** Rows as JSON, for one parameter of a query. */
function list(rows: readonly object[]): string {
  return JSON.stringify(rows)
}
