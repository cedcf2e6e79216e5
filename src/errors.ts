import { valueIn } from './fields.ts'
/** The optional parts of an `ApiError`. */
export interface ApiErrorDetails {
  /**
   * The code in the error body, if an upstream chose it. This code is text of the upstream, so logs, metrics, the ledger and all
   * decisions use the error's own code.
   */
  readonly shownCode?: string | undefined
  /** The path of the faulty request field, such as `messages[0].role`. */
  readonly param?: string
  /** The internal cause. It goes to the log, never to the caller. */
  readonly cause?: unknown
  /** Reply headers that belong to the error, such as `www-authenticate` or `allow`. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The only error that reaches callers: a status, a stable code, and a sentence that says what to change. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  /** The code in the error body. */
  readonly shownCode: string
  readonly param: string | null
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, code: string, message: string, details: ApiErrorDetails = {}) {
    super(message, { cause: details.cause })
    this.name = 'ApiError'
    this.status = status
    this.code = code
    this.shownCode = details.shownCode ?? code
    this.param = details.param ?? null
    this.headers = details.headers ?? {}
  }

  /** A copy with another cause. */
  withCause(cause: unknown): ApiError {
    return this.withParam(this.param, this.message, cause)
  }

  /** A copy about another field. @param message names the field */
  withParam(param: string | null, message: string, cause: unknown = this.cause): ApiError {
    const { status, code, shownCode, headers } = this
    return new ApiError(status, code, message, { shownCode, headers, cause, ...(param === null ? {} : { param }) })
  }
}

/** A fault of the data folder or of the database that the operator can repair. The message is one line. */
export class StorageError extends Error {
  override readonly name = 'StorageError'
}

/** A `StorageError` for a temporary fault, such as a database that is starting. When the service starts, it may retry. */
export class StorageNotReady extends StorageError {}

/**
 * The 400 for a field with a wrong value.
 * @param problem the end of the message, without its full stop
 * @param what the beginning of the message, before the quoted name
 */
export function invalidField(param: string, problem: string, what = 'The field'): ApiError {
  return new ApiError(400, 'invalid_field', `${what} "${param}" ${problem}.`, { param })
}

/** The error of a request whose client has disconnected. @param cause goes only to the log */
export function clientGone(cause?: unknown): ApiError {
  return new ApiError(499, 'client_gone', 'The client went away.', { cause })
}

/**
 * The 503 of load shedding.
 * @param message a more precise sentence than the default
 */
export function overloaded(
  message = 'The service has too many requests at the moment. Try again in a second.',
  headers: Readonly<Record<string, string>> = {},
): ApiError {
  return new ApiError(503, 'overloaded', message, { headers: { 'retry-after': '1', ...headers } })
}

/** The service's status, code and message for each of Fastify's errors that the caller can correct. */
const frameworkErrors: Readonly<Record<string, readonly [status: number, code: string, message: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    415,
    'unsupported_media_type',
    'This content type is not understood. Send the body as JSON with the header Content-Type: application/json.',
  ],
  FST_ERR_BAD_URL: [400, 'invalid_url', 'The path is not a valid URL. Percent-encode it as RFC 3986 says.'],
  FST_ERR_MAX_PARAM_LENGTH: [414, 'uri_too_long', 'A part of the path is too long. Send a shorter one.'],
}

/**
 * Turns any thrown value into an `ApiError`. An unexpected value becomes a 500 without details, with the value as its cause.
 */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  if (isDamage(thrown)) return databaseDamaged(thrown)
  const known = valueIn(frameworkErrors, codeOf(thrown))
  if (known) {
    const [status, code, message] = known
    return new ApiError(status, code, message, { cause: thrown })
  }
  return new ApiError(
    500,
    'internal_error',
    'Something failed in the service. Try again. If it fails again, tell the operator.',
    {
      cause: thrown,
    },
  )
}

/**
 * SQLite's codes of a damaged file (sqlite.org/rescode.html), and PostgreSQL's data_corrupted, index_corrupted and
 * undefined_file (postgresql.org/docs/current/errcodes-appendix.html).
 */
const damage = /^(?:SQLITE_(?:CORRUPT|NOTADB)|SQLITE_IOERR_(?:SHORT_READ|DATA|CORRUPTFS)$|XX001$|XX002$|58P01$)/

/** Whether an error, or one of its causes, has a database's code for damage. */
export function isDamage(error: unknown): boolean {
  return error instanceof Error && (damage.test(codeOf(error)) || isDamage(error.cause))
}

function databaseDamaged(cause: unknown): ApiError {
  const message = 'The database is damaged, so this cannot be answered. Tell the operator, who restores a backup.'
  return new ApiError(500, 'database_damaged', message, { cause })
}

/** The `type` that OpenAI's clients expect for a status. */
function openAiErrorType(status: number): string {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 429) return 'rate_limit_error'
  return status < 500 ? 'invalid_request_error' : 'server_error'
}

/** The error body of all interfaces except the plants interface, in the shape that OpenAI's clients read. */
export interface OpenAiErrorBody {
  readonly error: {
    readonly message: string
    readonly type: string
    readonly param: string | null
    readonly code: string
  }
}

/** Writes an error in OpenAI's shape, `{"error": {message, type, param, code}}`. */
export function openAiErrorBody(error: ApiError): OpenAiErrorBody {
  return {
    error: { message: error.message, type: openAiErrorType(error.status), param: error.param, code: error.shownCode },
  }
}

/** The error body of the plants interface (docs/interfaces.md). */
export interface PlantErrorBody {
  readonly error: number
  readonly message: string
}

/** Writes an error in the shape of the plants interface, `{"error": <HTTP status>, "message"}`. */
export function plantErrorBody(error: ApiError): PlantErrorBody {
  return { error: error.status, message: error.message }
}

/** The `code` that Node, a database or a library gave an error; empty if the error has no code. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
