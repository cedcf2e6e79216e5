import { ApiError } from './errors.ts'

/**
 * Refuses what no reply header or no database can carry: half of a character, and U+0000.
 * @throws ApiError 400 that names the field
 */
export function checkWhole(param: string, text: string): void {
  if (!text.isWellFormed()) throw invalid(param, 'has half of a surrogate pair. Send whole characters.')
  if (text.includes('\0')) throw invalid(param, 'has the character U+0000. Leave it out.')
}

function invalid(param: string, fault: string): ApiError {
  return new ApiError(400, 'invalid_field', `The field "${param}" ${fault}`, { param })
}
