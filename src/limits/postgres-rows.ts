import type { Transaction } from '../storage/postgres/database.ts'
import { dayOf } from '../time.ts'
import { Bucket } from './bucket.ts'
import type { Tally } from './counting.ts'

/** What one replica holds of a subject. */
export interface Share {
  chats: number
  reserved: number
}

/** What a replica holds, and tokens that are still to be added to those taken in this minute. */
export interface Holding extends Share {
  tokens: number
}

/** What is to be read, and by whom. */
export interface Question {
  readonly subjects: readonly string[]
  /** Those of which it matters what they have spent. */
  readonly spenders: readonly string[]
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
const dayLong = 24 * 60 * 60 * 1000

/** What all replicas have counted of a subject, while its row is locked. */
export class SharedTally implements Tally {
  readonly subject: string
  readonly requests: Bucket
  readonly tokens: Bucket
  chats: number
  reserved: number
  readonly spending: Tally['spending']
  /** What the replica held when this was read; undefined where it had nothing to say of it. */
  readonly before: Holding | undefined
  readonly #others: Share

  /** @param others what the other replicas hold */
  constructor(row: BucketsRow, others: Share, before: Holding | undefined, spent: readonly SpendRow[]) {
    const { chats, reserved, tokens } = before ?? none
    this.subject = row.subject
    this.requests = new Bucket(row.requestsTaken, row.requestsAt)
    this.tokens = new Bucket(row.tokensTaken, row.tokensAt)
    this.tokens.correct(tokens)
    this.before = before
    this.#others = others
    this.chats = others.chats + chats
    this.reserved = others.reserved + reserved
    this.spending = { today: (now) => spentOn(spent, dayOf(now)), thisMonth: (now) => spentOn(spent, monthOf(now)) }
  }

  /** What the replica holds now. */
  get own(): Share {
    return { chats: this.chats - this.#others.chats, reserved: this.reserved - this.#others.reserved }
  }
}

/**
 * Lets a transaction go on with what is there when it gets a lock, whatever isolation is usual in the database: one that is
 * serialisable would have to begin anew, and where several replicas want the same row, some would never get it in time.
 */
export function readCommitted(sql: Transaction): Promise<unknown> {
  // Sent at once, before whatever is asked next.
  return sql`SET TRANSACTION ISOLATION LEVEL READ COMMITTED`.execute()
}

/**
 * Locks the rows of subjects until the transaction is over, and reads what all replicas have counted. The questions go
 * out at once, and each is answered by what there is once the one before it has been: so the clock is read when the rows
 * are locked, and one replica's time never runs back behind that of another.
 */
export async function countRows(
  sql: Transaction,
  question: Question,
): Promise<{ readonly tallies: ReadonlyMap<string, SharedTally>; readonly now: number }> {
  const { subjects, spenders, replica, holdings } = question
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
    spenders.length === 0
      ? []
      : sql<SpendRow[]>`
          SELECT subject, day, tokens FROM spend
          WHERE subject IN (
            SELECT subject FROM json_to_recordset(${list(spenders.map((subject) => ({ subject })))}::text::json)
            AS asked (subject TEXT)
          )
          -- A day early: a month may begin between two questions.
          AND day >= to_char((clock_timestamp() - INTERVAL '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-01')`,
  ])
  if (rows.length < subjects.length) {
    await sql`
      INSERT INTO limit_counts (subject, requests_taken, requests_at, tokens_taken, tokens_at)
      SELECT subject, 0, 0, 0, 0 FROM json_to_recordset(${asked}::text::json) AS asked (subject TEXT)
      ON CONFLICT DO NOTHING`
    return countRows(sql, question)
  }
  const sharesOf = Map.groupBy(shares, ({ subject }) => subject)
  const spentBy = Map.groupBy(spent, ({ subject }) => subject)
  const tallies = rows.map((row) => {
    const others = sumOf(sharesOf.get(row.subject) ?? [])
    const before = holdings.get(row.subject)
    // A copy, since what is held goes on changing.
    return new SharedTally(row, others, before && { ...before }, spentBy.get(row.subject) ?? [])
  })
  return { tallies: new Map(tallies.map((tally) => [tally.subject, tally])), now: clock[0]?.now ?? 0 }
}

/** Writes what has been counted of subjects. @param expires until when the replica's share counts */
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
    .filter(({ before, own }) => before !== undefined || isSome(own))
    .map(({ subject, own }) => ({ subject, chats: own.chats, reserved_tokens: own.reserved }))
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
 * Removes what replicas that are no more have left behind, and what is as if it had never been counted: a day old. Rows that
 * others hold are passed over, so that nobody waits for it.
 * @param most how many rows of each kind go at once
 * @returns how many rows are gone: 0 when none is left
 */
export async function removeIdleRows(sql: Transaction, most: number): Promise<number> {
  const shares = await sql`
    WITH idle AS (
      SELECT subject, replica FROM limit_shares WHERE expires < ${clockOf(sql)} LIMIT ${most} FOR UPDATE SKIP LOCKED
    )
    DELETE FROM limit_shares USING idle
    WHERE limit_shares.subject = idle.subject AND limit_shares.replica = idle.replica`
  const counts = await sql`
    WITH idle AS (
      SELECT subject FROM limit_counts
      WHERE requests_at < ${clockOf(sql)} - ${dayLong}::bigint AND tokens_at < ${clockOf(sql)} - ${dayLong}::bigint
      LIMIT ${most} FOR UPDATE SKIP LOCKED
    )
    DELETE FROM limit_counts USING idle WHERE limit_counts.subject = idle.subject`
  return shares.count + counts.count
}

/** Whether anything is held. */
export function isSome({ chats, reserved }: Share): boolean {
  return chats !== 0 || reserved !== 0
}

/** Milliseconds, by the database's clock. */
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

/** Rows as one parameter. */
function list(rows: readonly object[]): string {
  return JSON.stringify(rows)
}
