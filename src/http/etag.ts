/** An entity tag (RFC 9110, section 8.8.3). A tag may contain commas. */
const entityTag = /(W\/)?"([^"]*)"/g

/** Whether an `If-None-Match` names a tag, by weak comparison (RFC 9110, section 13.1.2). @param tag without its quotes */
export function matchesTag(header: string | undefined, tag: string | number): boolean {
  if (header === undefined) return false
  return header.trim() === '*' || [...header.matchAll(entityTag)].some(([, , named]) => named === `${tag}`)
}

/**
 * Whether a request with these headers may change a resource that has a version (RFC 9110, section 13.1): `If-Match` must name the
 * version, by strong comparison, and `If-None-Match` must not. What follows the version and a point in a tag is not compared.
 */
export function allowsChange(
  headers: { readonly 'if-match'?: string | undefined; readonly 'if-none-match'?: string | undefined },
  version: number,
): boolean {
  const names = (header: string, isWeak: boolean) =>
    header.trim() === '*' ||
    [...header.matchAll(entityTag)].some(
      ([, weak, named]) => (isWeak || weak === undefined) && named?.split('.')[0] === `${version}`,
    )
  const { 'if-match': match, 'if-none-match': noneMatch } = headers
  return (match === undefined || names(match, false)) && (noneMatch === undefined || !names(noneMatch, true))
}
