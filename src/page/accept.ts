/**
 * Whether a client gets HTML and not JSON (RFC 9110, section 12.5.1). The header must name HTML, with at least the weight of
 * JSON. Programs that accept any type, or send no header, get JSON.
 * @param accepted the header `Accept`
 */
export function prefersHtml(accepted = ''): boolean {
  const weights = new Map(accepted.toLowerCase().split(',').map(toRange))
  const html = weights.get('text/html') ?? 0
  const json = weights.get('application/json') ?? 0
  return html > 0 && html >= json
}

function toRange(range: string): [type: string, weight: number] {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
  return [type, weight === undefined ? 1 : Number(weight) || 0]
}
