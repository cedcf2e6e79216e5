/**
 * Tells whether a request has a header more than once, although Node shows the first alone.
 * @param headers names and values in turn, as Node's `rawHeaders` has them
 * @param name in lower case
 */
export function isRepeated(headers: readonly string[], name: string): boolean {
  let count = 0
  for (let index = 0; index < headers.length; index += 2) {
    const given = headers[index]
    // Most names differ in length: to write each in lower case would cost every request.
    if (given?.length === name.length && given.toLowerCase() === name) count++
  }
  return count > 1
}
