import { ApiError, codeOf } from '../../errors.ts'
import { field } from '../../fields.ts'

/** A prepared statement that the server does not have, since a pooler has taken another server (invalid_sql_statement_name). */
const statementLost = '26000'

/**
 * Reasons to do a transaction again: it was undone, could not be serialised, or two waited for each other (SQLSTATE class
 * 40), or a statement of it was lost.
 */
const conflicts = new Set(['40000', '40001', '40P01', statementLost])

/** PgBouncer's and others' SQLSTATE for what they do not let through; PostgreSQL has it for a broken protocol (protocol_violation). */
const refusedByPooler = '08P01'

/** What the client library and Node say when there is no connection, or no longer one. */
const losses = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EPIPE',
  'ETIMEDOUT',
])

/**
 * SQLSTATEs of a server that goes down, comes up, has no connection, memory or lock left, or only reads as a standby
 * (postgresql.org/docs/current/errcodes-appendix.html).
 */
const unavailable = new Set(['57P01', '57P02', '57P03', '57014', '53000', '53200', '53300', '53400', '55P03', '25006'])

/**
 * SQLSTATEs of a server that does not let us in, or has not our tables: only the operator can mend it, and does so
 * while we run.
 */
const refusals = new Set(['28000', '28P01', '3D000', '42501', '42P01', '42703', '42804'])

/**
 * A connection cannot be made as the database's URL asks for it, and no further try mends that. Its code is
 * TLS_NOT_OFFERED, NOT_POSTGRESQL, or Node's code for a certificate or a failed handshake.
 */
export class ConnectFault extends Error {
  override readonly name = 'ConnectFault'
  readonly code: string

  constructor(code: string, cause?: unknown) {
    super(`the connection cannot be made as the URL asks for it: ${code}`, { cause })
    this.code = code
  }
}

/** A connection has ended, or was not made in time. Its code is one of the client library's. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
  readonly code: string

  constructor(code: 'CONNECTION_CLOSED' | 'CONNECT_TIMEOUT') {
    super(`the connection is gone: ${code}`)
    this.code = code
  }
}

/** The answer did not come in time. */
export class TookTooLong extends Error {
  override readonly name = 'TookTooLong'
}

/** What a transaction has read is no longer so, and it must begin again: thrown where the engine cannot tell. */
export class Conflict extends Error {
  override readonly name = 'Conflict'
  readonly code = '40001'

  constructor() {
    super('others have written what this transaction was about')
  }
}

/** The database has answered ROLLBACK to a COMMIT: nothing was written. */
export class RolledBack extends Error {
  override readonly name = 'RolledBack'
  readonly code = '40000'

  constructor() {
    super('the database has undone the transaction instead of committing it')
  }
}

/** The database has not said that it committed a transaction, or that there was none: some of its statements may have been done. */
export class Unconfirmed extends Error {
  override readonly name = 'Unconfirmed'

  constructor() {
    super('the database has not said that it committed this transaction')
  }
}

/** Tells whether a write failed because the row that it refers to, such as its account, is not there any more (foreign_key_violation). */
export function isOrphan(error: unknown): boolean {
  return codeOf(error) === '23503'
}

/** Tells whether a transaction that has failed has changed nothing, and may be done again. */
export function isConflict(error: unknown): boolean {
  return conflicts.has(codeOf(error)) || isOutdated(error)
}

/**
 * Tells whether a statement was prepared before a migration changed its columns (feature_not_supported, by this function of
 * the server): outside a transaction the client library prepares it again by itself.
 */
function isOutdated(error: unknown): boolean {
  return codeOf(error) === '0A000' && field(error, 'routine') === 'RevalidateCachedQuery'
}

/** Tells whether the database cannot be reached now, or the connection to it was lost. */
export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error)
  return losses.has(code) || unavailable.has(code) || code.startsWith('08')
}

/** Tells whether a failure may be over by itself, as while a server starts, or fails over to another. */
export function isPassing(error: unknown): boolean {
  return isConflict(error) || isConnectionLoss(error) || error instanceof TookTooLong
}

/** Tells whether the connection itself is gone, and nothing more may be sent on it. */
export function isConnectionGone(error: unknown): boolean {
  return losses.has(codeOf(error))
}

/** Tells whether there is a pooler between us and the server that does not let us rely on a session. */
export function isPoolers(error: unknown): boolean {
  return codeOf(error) === statementLost || refusedSetting(error) !== undefined
}

/** Tells whether an error has the SQLSTATE that poolers have for their own refusals. */
export function isOfPooler(error: unknown): boolean {
  return codeOf(error) === refusedByPooler
}

/** Tells what a pooler says of a setting that a client may not send at its start; undefined where an error is something else. */
export function refusedSetting(error: unknown): string | undefined {
  const isRefused = isOfPooler(error) && error instanceof Error && /startup parameter/.test(error.message)
  return isRefused ? error.message : undefined
}

/** Tells whether the server only reads: it is a standby now. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006'
}

/** Tells whether the operator must mend something before the database can be used. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ConnectFault || refusals.has(codeOf(error))
}

/** The 503 of a database that does not answer; nothing was written. */
export function databaseUnavailable(cause: unknown): ApiError {
  return new ApiError(503, 'database_unavailable', 'The database does not answer. Nothing was written; try again.', {
    cause,
    headers: { 'retry-after': '1' },
  })
}

/** The 503 of a commit that was not confirmed: it may be there, or come to be. */
export function writeUnconfirmed(cause: unknown): ApiError {
  return new ApiError(
    503,
    'write_unconfirmed',
    'The database did not confirm this write in time, and it may be there. With an Idempotency-Key, send it again with the same key; without one, look first.',
    { cause, headers: { 'retry-after': '1' } },
  )
}

/** Resolves or rejects with the work, but waits no longer than so many milliseconds. @throws TookTooLong */
export function withinTime<T>(work: Promise<T>, milliseconds: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TookTooLong('the database took too long')), Math.max(0, milliseconds))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
