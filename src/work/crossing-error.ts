import { ApiError } from '../errors.ts'
import { OutOfFuel, tooComplex } from './fuel.ts'

/** An error as plain data, because a structured clone loses the class and the fields of an error. */
export interface CrossingError {
  readonly message: string
  readonly stack?: string | undefined
  readonly cause?: CrossingError | undefined
  readonly isOutOfFuel?: boolean
  /** The fields of an `ApiError`. */
  readonly api?: Pick<ApiError, 'status' | 'code' | 'param' | 'headers'>
}

/** Turns any thrown value into plain data. */
export function packError(thrown: unknown): CrossingError {
  if (!(thrown instanceof Error)) return { message: String(thrown) }
  const { message, stack } = thrown
  const cause = thrown.cause === undefined ? undefined : packError(thrown.cause)
  if (!(thrown instanceof ApiError)) return { message, stack, cause, isOutOfFuel: thrown instanceof OutOfFuel }
  const { status, code, param, headers } = thrown
  return { message, cause, api: { status, code, param, headers } }
}

/**
 * Makes the error again: an `ApiError` with all its fields, the 400 `too_complex` of spent units, or a plain error with the
 * message and the stack of the original.
 * @param param the field of the request that causes the work
 */
export function unpackError({ message, stack, isOutOfFuel, api, ...packed }: CrossingError, param: string): Error {
  if (isOutOfFuel) return tooComplex(param)
  const cause = packed.cause && unpackError(packed.cause, param)
  if (api) {
    const { status, code, headers } = api
    return new ApiError(status, code, message, { headers, cause, ...(api.param !== null && { param: api.param }) })
  }
  const error = new Error(message, cause && { cause })
  if (stack !== undefined) error.stack = stack
  return error
}
