/** Whether an `If-None-Match` names a tag, by weak comparison (RFC 9110, section 13.1.2). @param tag without its quotes */
export function matchesTag(header: string | undefined, tag: string | number): boolean {
  if (header === undefined) return false
  return header.split(',').some((each) => each.trim() === '*' || each.trim().replace(/^W\//, '') === `"${tag}"`)
}
