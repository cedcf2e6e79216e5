/** The `Link` header (RFC 8288) of a page that has a next page. @param query its parameters; undefined ones are left out */
export function nextLink(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const sent = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, `${value}`]]))
  return `<${path}?${new URLSearchParams(sent)}>; rel="next"`
}
