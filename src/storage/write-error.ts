import { ApiError, codeOf } from '../errors.ts'

/**
 * Codes of SQLite and PostgreSQL for a full disk. SQLITE_IOERR_WRITE comes from a quota or a limit on file sizes.
 * SQLITE_IOERR_FSYNC comes from a file system that allocates space late. SQLITE_IOERR_SHMSIZE means that there is no room for the
 * log's index, the file `-shm`. 53100 is PostgreSQL's disk_full.
 */
const noRoom = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_SHMSIZE', '53100'])

/** Codes of the operating system for a full disk, and our own code. */
const noRoomElsewhere = new Set(['ENOSPC', 'EDQUOT', 'disk_full'])

/** Whether this is the code of an error about a full disk. */
export function isNoRoom(code: string): boolean {
  return noRoom.has(code) || noRoomElsewhere.has(code)
}

/**
 * Runs a write, and translates its errors for callers.
 * @throws ApiError 507 when the disk is full, 503 when another program has the lock; any other error unchanged
 */
export function withWriteErrors<T>(write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw toWriteError(error)
  }
}

/**
 * The `ApiError` for a full disk or a locked database; any other error unchanged. A full disk has the status 507 (RFC 4918,
 * section 11.5), because neither the caller nor a quick retry can fix it.
 */
export function toWriteError(error: unknown): unknown {
  const code = codeOf(error)
  if (noRoom.has(code)) {
    return new ApiError(
      507,
      'disk_full',
      'The disk is full, so nothing was written. Tell the operator; reading goes on.',
      {
        cause: error,
      },
    )
  }
  if (code === 'SQLITE_BUSY') {
    return new ApiError(503, 'database_busy', 'Another program holds the database. Try again.', {
      cause: error,
      headers: { 'retry-after': '1' },
    })
  }
  return error
}

/** Whether a write failed because its account has been deleted. Such a write has changed nothing. */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === 'SQLITE_CONSTRAINT_FOREIGNKEY'
}

/** The refusal of a write whose account was deleted after the request was authorized. */
export function accountGone(cause: unknown): ApiError {
  return new ApiError(403, 'account_deleted', 'The account has been deleted. Ask the operator for another.', { cause })
}
