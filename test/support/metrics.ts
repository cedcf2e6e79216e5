/** Samples of Prometheus' text format: values by `name{labels}`. */
export type Scraped = ReadonlyMap<string, number>

/** A line with a sample: `name{labels} value`. */
const sampleLine =
  /^([a-z_][a-z0-9_]*)((?:\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\})?) (\S+)$/

/**
 * Reads Prometheus' text format, strictly.
 * @throws Error for an invalid line, a repeated sample, or a sample without its type before it
 */
export function parseMetrics(text: string): Scraped {
  const found = new Map<string, number>()
  let name = ''
  for (const line of text.trimEnd().split('\n')) {
    const type = /^# TYPE (\S+) (?:counter|gauge|histogram)$/.exec(line)
    if (type) name = type[1] ?? ''
    if (type || /^# HELP \S+ \S.*$/.test(line)) continue
    const [, sample = '', labels = '', value = ''] = sampleLine.exec(line) ?? []
    const isOfType = [name, `${name}_bucket`, `${name}_sum`, `${name}_count`].includes(sample)
    if (!isOfType || found.has(sample + labels) || Number.isNaN(Number(value.replace('Inf', 'Infinity')))) {
      throw new Error(`not a line of metrics: ${line}`)
    }
    found.set(sample + labels, Number(value.replace('Inf', 'Infinity')))
  }
  return found
}

/** The names of the metrics, without labels. */
export function namesOf(scraped: Scraped): ReadonlySet<string> {
  return new Set([...scraped.keys()].map((sample) => sample.replace(/\{.*/s, '')))
}

/** The sum of the samples of this name whose labels contain all of these texts, such as `le="+Inf"`. */
export function sumOf(scraped: Scraped, name: string, ...pieces: readonly string[]): number {
  let sum = 0
  for (const [sample, value] of scraped) {
    if (sample.replace(/\{.*/s, '') === name && pieces.every((piece) => sample.includes(piece))) sum += value
  }
  return sum
}
