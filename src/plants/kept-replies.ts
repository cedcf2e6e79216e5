import type { FastifyRequest } from 'fastify'
import { digestOf } from '../bytes.ts'
import { query, type Script } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { readKey } from './idempotency.ts'
import type { Idempotency } from './plant.ts'
import { keyReused, oldestValidKeySeconds } from './policy.ts'

/*
 * The kept replies of changes of many rows, for repeated requests with the same `Idempotency-Key`. A kept reply has only what the
 * request does not say, such as the assigned ids: a repeated request has the rest.
 */

/** The most characters of a kept reply. */
const maxChars = 64 * 1024
/** A reply of more characters is long. Of long replies, fewer are kept. */
const longChars = 1024
/** The most kept replies of an account, and of these the most long ones: the newest. Together they have some 16 MB. */
const maxReplies = 10_000
const maxLongReplies = 100

/** What a change has answered, now or when the request was first sent. */
export interface Answer {
  /** The text that `change` returned. */
  readonly kept: string
  /** When the change was made, in Unix seconds. */
  readonly at: number
  /** Whether the request is repeated, so that nothing was changed now. */
  readonly isReplay: boolean
}

/**
 * Reads the `Idempotency-Key` of a request. A key belongs to a route: the same key on another route, or on `POST /plants`, is another
 * key. On another path of the same route, it was used for another request.
 * @param digest a digest of the body. Requests with the same digest must be equal
 * @returns undefined without the header
 * @throws ApiError 400 for an invalid key
 */
export function keyOfRoute(request: FastifyRequest, digest: string): Idempotency | undefined {
  const header = request.headers['idempotency-key']
  if (header === undefined) return undefined
  const path = request.url.split('?', 1)[0] ?? ''
  const asked = `${path}\n${digest}`
  return { key: `${request.routeOptions.url} ${readKey(header)}`, request: digestOf(Buffer.from(asked)) }
}

/**
 * Makes a change once for each idempotency key, and keeps its reply for 24 hours, in the same transaction. A repeated request gets
 * the kept reply.
 * @param change reads before it writes, and returns what to keep: at most 64 Ki characters
 * @param now Unix seconds
 * @throws ApiError 422 when the key was used for another request; the errors of the change
 */
export function* changeOnce(
  account: number,
  idempotency: Idempotency | undefined,
  change: (now: number) => Script<string>,
  now = unixSeconds(),
): Script<Answer> {
  if (!idempotency) return { kept: yield* change(now), at: now, isReplay: false }
  const { key, request } = idempotency
  const [first] = yield* query<{ request: string; reply: string; created: number }>(
    'SELECT request, reply, created FROM kept_replies WHERE account = $1 AND key = $2 AND created >= $3',
    ...[account, key, oldestValidKeySeconds(now)],
  )
  if (first && first.request !== request) throw keyReused()
  if (first) return { kept: first.reply, at: first.created, isReplay: true }
  const kept = yield* change(now)
  if (kept.length > maxChars) throw new Error(`a reply of ${kept.length} characters is too long to be kept`)
  yield* query(
    // An existing row with the same key is older than a day, so it is replaced.
    `INSERT INTO kept_replies (account, key, request, reply, created) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (account, key)
      DO UPDATE SET request = excluded.request, reply = excluded.reply, created = excluded.created`,
    ...[account, key, request, kept, now],
  )
  yield* forgetOldest(account, kept.length > longChars)
  return { kept, at: now, isReplay: false }
}

/** Removes the oldest replies of an account that has too many, or too many long ones. */
function forgetOldest(account: number, isLong: boolean): Script<unknown> {
  const long = isLong ? `AND length(reply) > ${longChars}` : ''
  // SQLite needs a limit before an offset, and an index has the replies of an account by their age.
  return query(
    `DELETE FROM kept_replies WHERE account = $1 AND key IN (
      SELECT key FROM kept_replies WHERE account = $1 ${long}
      ORDER BY created DESC, key DESC LIMIT ${maxReplies} OFFSET ${isLong ? maxLongReplies : maxReplies})`,
    account,
  )
}

/** Removes at most `maxRows` replies that were kept before a time in Unix seconds. @returns how many were removed */
export function* removeOldReplies(before: number, maxRows: number): Script<number> {
  const { length } = yield* query(
    `DELETE FROM kept_replies WHERE (account, key) IN
      (SELECT account, key FROM kept_replies WHERE created < $1 ORDER BY created LIMIT $2) RETURNING account`,
    ...[before, maxRows],
  )
  return length
}
