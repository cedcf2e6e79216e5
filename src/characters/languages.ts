/** The languages of an `Accept-Language` header (RFC 9110, section 12.5.4), without regions, the preferred one first. */
export function languagesOf(header: string | undefined): readonly string[] {
  return (header ?? '')
    .split(',')
    .map((range) => {
      const [tag = '', ...parameters] = range.split(';').map((part) => part.trim())
      const weight = parameters.find((parameter) => /^q=/i.test(parameter))
      return {
        language: tag.split('-', 1)[0]?.toLowerCase() ?? '',
        weight: weight === undefined ? 1 : Number(weight.slice(2)),
      }
    })
    .filter(({ language, weight }) => /^[a-z]{2,3}$/.test(language) && weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .map(({ language }) => language)
}
