import { ApiError } from './errors.ts'

/**
 * Refuses half of a character where a text goes into a reply header, which cannot carry it.
 * @throws ApiError 400 that names the field
 */
export function checkWhole(param: string, text: string): void {
  if (text.isWellFormed()) return
  const message = `The field "${param}" has half of a surrogate pair. Send whole characters.`
  throw new ApiError(400, 'invalid_field', message, { param })
}
