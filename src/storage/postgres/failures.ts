import { ApiError, codeOf } from '../../errors.ts'
import { field } from '../../fields.ts'

/** The server has no such prepared statement, because a pooler has switched to another session (invalid_sql_statement_name). */
const statementLost = '26000'

/**
 * Reasons to retry a transaction: a rollback, a serialisation failure or a deadlock (SQLSTATE class 40), or a lost prepared
 * statement.
 */
const conflicts = new Set(['40000', '40001', '40P01', statementLost])

/** The SQLSTATE of refusals by PgBouncer and other poolers. In PostgreSQL it means a broken protocol (protocol_violation). */
const refusedByPooler = '08P01'

/** Codes of the client library and of Node for a connection that failed or was lost. */
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
 * SQLSTATEs of a server that is stopping or starting, has no connection or memory left, has ended a statement or a wait for a
 * lock at a time limit, or is a read-only standby (postgresql.org/docs/current/errcodes-appendix.html).
 */
const unavailable = new Set(['57P01', '57P02', '57P03', '57014', '53000', '53200', '53300', '53400', '55P03', '25006'])

/**
 * SQLSTATEs of a server that refuses the login or a right, or does not have our database or tables. Only the operator can fix
 * these faults. The service keeps running, and needs no restart after the fix.
 */
const refusals = new Set(['28000', '28P01', '3D000', '42501', '42P01', '42703', '42804'])

/** A failure with a code, like the failures of the server and of the client library. */
class CodedError extends Error {
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = new.target.name
    this.code = code
  }
}

/**
 * A connection cannot be made as the database's URL says, and a retry cannot help. The code is TLS_NOT_OFFERED, NOT_POSTGRESQL,
 * or Node's code for a certificate or a failed handshake.
 */
export class ConnectFault extends CodedError {
  constructor(code: string, cause?: unknown) {
    super(code, `the connection cannot be made as the URL asks for it: ${code}`, cause)
  }
}

/** A connection has ended, or was not made in time. The codes are those of the client library. */
export class ConnectionLost extends CodedError {
  constructor(code: 'CONNECTION_CLOSED' | 'CONNECT_TIMEOUT') {
    super(code, `the connection is gone: ${code}`)
  }
}

/** The transaction must be retried: nothing was written. By default for a reason that the engine cannot detect. */
export class Conflict extends CodedError {
  constructor(
    code = '40001',
    message = 'the transaction must run again, for a reason that the database does not know',
  ) {
    super(code, message)
  }
}

/** The database did not answer in time. */
export class DatabaseTimeout extends Error {
  override readonly name = 'DatabaseTimeout'
}

/** The database did not confirm a commit, or had no transaction open: some of the statements may have been committed. */
export class Unconfirmed extends Error {
  override readonly name = 'Unconfirmed'

  constructor() {
    super('the database has not said that it committed this transaction')
  }
}

/** Whether a write failed because a row that it refers to, such as its account, has been deleted (foreign_key_violation). */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === '23503'
}

/** Whether a failed transaction has changed nothing, and may be retried. */
export function isConflict(error: unknown): boolean {
  return conflicts.has(codeOf(error)) || isOutdated(error)
}

/**
 * Whether a statement was prepared before a migration changed its columns: the server's function `RevalidateCachedQuery` fails
 * with feature_not_supported. Outside a transaction, the client library prepares the statement again by itself.
 */
function isOutdated(error: unknown): boolean {
  return codeOf(error) === '0A000' && field(error, 'routine') === 'RevalidateCachedQuery'
}

/** Whether the database cannot be reached or used for the moment, or the connection to it was lost. */
export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error)
  return losses.has(code) || unavailable.has(code) || code.startsWith('08')
}

/** Whether a failure may end without the operator's help, for example while a server starts, or during a failover. */
export function isTransient(error: unknown): boolean {
  return isConflict(error) || isConnectionLoss(error) || error instanceof DatabaseTimeout
}

/** Whether the connection itself is lost, and nothing more may be sent on it. */
export function isConnectionGone(error: unknown): boolean {
  return losses.has(codeOf(error))
}

/** Whether the error shows that a pooler stands before the server, so sessions keep no state. */
export function showsPooler(error: unknown): boolean {
  return codeOf(error) === statementLost || refusedSetting(error) !== undefined
}

/** Whether an error has the SQLSTATE that poolers use for their own refusals. */
export function isPoolerRefusal(error: unknown): boolean {
  return codeOf(error) === refusedByPooler
}

/** The message of a pooler that refuses a startup parameter; undefined for any other error. */
export function refusedSetting(error: unknown): string | undefined {
  const isRefused = isPoolerRefusal(error) && error instanceof Error && /startup parameter/.test(error.message)
  return isRefused ? error.message : undefined
}

/** Whether the server is read-only: it is a standby now. */
export function isReadOnly(error: unknown): boolean {
  return codeOf(error) === '25006'
}

/** Whether the operator must fix something before the database can be used. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ConnectFault || refusals.has(codeOf(error))
}

/** The 503 for a database that does not answer; nothing was written. */
export function databaseUnavailable(cause: unknown): ApiError {
  return new ApiError(503, 'database_unavailable', 'The database does not answer. Nothing was written; try again.', {
    cause,
    headers: { 'retry-after': '1' },
  })
}

/** The 503 for a commit that was not confirmed. The data may be written, or may still be written later. */
export function writeUnconfirmed(cause: unknown): ApiError {
  return new ApiError(
    503,
    'write_unconfirmed',
    'The database did not confirm this write in time, so the write may have happened. If you sent an Idempotency-Key, send the request again with the same key. If not, first check whether the write is there.',
    { cause, headers: { 'retry-after': '1' } },
  )
}

/** Settles as the work does. @throws DatabaseTimeout when the work takes longer than the timeout */
export function withinTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new DatabaseTimeout('the database took too long')), Math.max(0, timeoutMs))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
