import { hash, randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Actor, Recorder } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import type { Cursors } from '../plants/cursor.ts'
import { rowOf, rowsOf, type Script, type Scripts, sql } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { civilDay } from './due.ts'
import { type DueRule, readDue } from './due-list.ts'
import type { CalendarEntry, CalendarInput } from './feed-calendar.ts'

/** The most due dates of a feed. */
const maxEntries = 10_000
const entriesPerPortion = 500
/** A day after all due dates. */
const endOfTime = '9999-12-31'

/** A calendar feed of an account, whose secret is part of its address. */
export interface Feed {
  readonly account: number
  /** Unix seconds. */
  readonly created: number
  /** The time zone of the account; null for UTC. */
  readonly zone: string | null
}

/** Makes the secret of a feed: 192 random bits. */
export function makeFeedSecret(): string {
  return `feed_${randomBytes(24).toString('base64url')}`
}

/** The SHA-256 of a secret, which is stored instead of the secret. */
function digestOf(secret: string): string {
  return hash('sha256', secret)
}

/** Gives an account a feed with this secret. It replaces the feed that the account has. @returns when it was made, in Unix seconds */
export function* setFeed(account: number, secret: string, by: Actor, record: Recorder): Script<number> {
  const before = yield* createdOf(account)
  const after = { created: unixSeconds() }
  yield* rowsOf(sql`
    INSERT INTO care_feeds (account, digest, created) VALUES (${account}, ${digestOf(secret)}, ${after.created})
    ON CONFLICT (account) DO UPDATE SET digest = excluded.digest, created = excluded.created`)
  yield* record(by, { action: 'feed.created', target: null, account: { id: account }, before, after })
  return after.created
}

/** Ends the feed of an account. @throws ApiError 404 if the account has none */
export function* endFeed(account: number, by: Actor, record: Recorder): Script<void> {
  const before = yield* createdOf(account)
  if (!before) throw new ApiError(404, 'unknown_feed', 'Your account has no calendar feed. POST /care/feed makes one.')
  yield* rowsOf(sql`DELETE FROM care_feeds WHERE account = ${account}`)
  yield* record(by, { action: 'feed.ended', target: null, account: { id: account }, before, after: null })
}

function* createdOf(account: number): Script<{ readonly created: number } | null> {
  return (yield* rowOf<{ created: number }>(sql`SELECT created FROM care_feeds WHERE account = ${account}`)) ?? null
}

/** The feed with this secret; undefined for an unknown secret, and while the account is suspended. */
export function findFeed(secret: string): Script<Feed | undefined> {
  return rowOf<Feed>(sql`
    SELECT account, care_feeds.created, time_zone AS zone FROM care_feeds JOIN accounts ON accounts.id = account
    WHERE digest = ${digestOf(secret)} AND suspended IS NULL`)
}

/**
 * Reads what is due next for each plant and kind that the account of a feed sees, in portions.
 * @param cursors makes the names of the events, which show no ids of shared plants
 */
export async function readFeed(scripts: Scripts, cursors: Cursors, feed: Feed): Promise<CalendarInput> {
  const today = civilDay(feed.zone, unixSeconds())
  const entries: CalendarEntry[] = []
  let last: DueRule | undefined
  do {
    const rules = await readDue(scripts, feed.account, endOfTime, last, entriesPerPortion)
    entries.push(...rules.map((rule) => entryOf(rule, today, feed, cursors)))
    last = rules.length < entriesPerPortion ? undefined : rules.at(-1)
    await setImmediate()
  } while (last && entries.length < maxEntries)
  return { entries, isCut: last !== undefined }
}

function entryOf(rule: DueRule, today: string, feed: Feed, cursors: Cursors): CalendarEntry {
  const { account, plant, kind, name, due } = rule
  return {
    uid: `${cursors.writePlace('feed', [account, plant, kind])}@conservatory`,
    summary: `${name}: ${kind}`,
    day: due < today ? today : due,
    overdueSince: due < today ? due : null,
    changed: rule.last ?? feed.created,
  }
}
