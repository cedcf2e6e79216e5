import { ApiError, codeOf } from '../errors.ts'

/**
 * What SQLite says when there is no room: for the data, the log, the index of the log in shared memory, or, on file
 * systems that find room late, when it asks for the data to be on disk. A limit or a quota is a write that failed. And
 * PostgreSQL's disk_full.
 */
const noRoom = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_SHMSIZE', '53100'])

/** What the operating system says of it, and what callers are told. */
const noRoomElsewhere = new Set(['ENOSPC', 'EDQUOT', 'disk_full'])

/** Whether an error of this code tells of a disk without room. */
export function isNoRoom(code: string): boolean {
  return noRoom.has(code) || noRoomElsewhere.has(code)
}

/**
 * Does a write whose callers are to be told what is wrong with the disk.
 * @throws ApiError 507 when the disk is full, 503 when another program writes, and whatever else the database says
 */
export function withWriteErrors<T>(write: () => T): T {
  try {
    return write()
  } catch (error) {
    throw toWriteError(error)
  }
}

/**
 * The `ApiError` for a write that failed; what is no matter of the disk comes back as it is. A full disk is nothing that
 * a caller or a retry can mend at once, and has a status of its own (RFC 4918, section 11.5).
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

/** Whether a write failed because the account that it is for is not there any more; it has changed nothing. */
export function isForeignKeyViolation(error: unknown): boolean {
  return codeOf(error) === 'SQLITE_CONSTRAINT_FOREIGNKEY'
}

/** The refusal of a write whose account was deleted after the request was let in. */
export function accountGone(cause: unknown): ApiError {
  return new ApiError(403, 'account_deleted', 'The account has been deleted. Ask the operator for another.', { cause })
}
