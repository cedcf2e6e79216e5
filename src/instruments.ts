/** One line of a metric: a value and its labels. */
export interface Sample {
  /** The end of the metric's name, such as `_count`. */
  readonly suffix?: string
  /** Labels with an empty value are left out. */
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number
}

/** A metric: its name, its meaning, and its current values. */
export interface Metric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  samples(): Iterable<Sample>
}

/** The definition of a histogram. */
export interface HistogramOptions {
  readonly name: string
  readonly help: string
  readonly labels?: readonly string[]
  /** The upper bounds of the buckets, in ascending order. */
  readonly bounds: readonly number[]
}

/** The counts and the sum for one combination of label values. */
interface Series {
  /** The values of the labels, in their order. */
  readonly values: readonly string[]
  /** The count of each bucket alone, not cumulative. The last bucket is for values above all bounds. */
  readonly counts: number[]
  sum: number
}

/** The series whose label values so far are the same. */
interface Branch {
  /** The branches by the value of the next label. */
  readonly branches: Map<string, Branch>
  series?: Series
}

/**
 * Counts values by size. Each combination of label values is a series, and no series is ever removed. So there must be few label
 * values.
 */
export class Histogram implements Metric {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly #labels: readonly string[]
  readonly #bounds: readonly number[]
  readonly #series: Series[] = []
  /** The series by their label values. Looking up a joined text would cost each request 1 % of its CPU time. */
  readonly #root: Branch = { branches: new Map() }

  constructor({ name, help, labels = [], bounds }: HistogramOptions) {
    this.name = name
    this.help = help
    this.#labels = labels
    this.#bounds = bounds
    // A histogram without labels has exactly one series, which exists from the start.
    if (labels.length === 0) this.#begin(this.#root, [])
  }

  /** Counts a value. @param values the values of the labels, in their order; an empty value leaves its label out */
  record(value: number, ...values: readonly string[]): void {
    let branch = this.#root
    for (const each of values) branch = branch.branches.get(each) ?? grow(branch, each)
    const series = branch.series ?? this.#begin(branch, values)
    let bucket = 0
    while (value > (this.#bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket++
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1
    series.sum += value
  }

  *samples(): Iterable<Sample> {
    for (const { values, counts, sum } of this.#series) {
      const labels = Object.fromEntries(this.#labels.map((label, index) => [label, values[index] ?? '']))
      let count = 0
      for (const [bucket, each] of counts.entries()) {
        count += each
        const le = String(this.#bounds[bucket] ?? '+Inf')
        yield { suffix: '_bucket', labels: { ...labels, le }, value: count }
      }
      yield { suffix: '_sum', labels, value: sum }
      yield { suffix: '_count', labels, value: count }
    }
  }

  #begin(branch: Branch, values: readonly string[]): Series {
    const series = { values: [...values], counts: Array.from({ length: this.#bounds.length + 1 }, () => 0), sum: 0 }
    branch.series = series
    this.#series.push(series)
    return series
  }
}

function grow({ branches }: Branch, value: string): Branch {
  const branch: Branch = { branches: new Map() }
  branches.set(value, branch)
  return branch
}

/** Writes metrics in Prometheus' text format, version 0.0.4. */
export function writeMetrics(metrics: Iterable<Metric>): string {
  const lines: string[] = []
  for (const metric of metrics) {
    lines.push(`# HELP ${metric.name} ${metric.help}`, `# TYPE ${metric.name} ${metric.type}`)
    for (const { suffix = '', labels = {}, value } of metric.samples()) {
      lines.push(`${metric.name}${suffix}${writeLabels(labels)} ${writeNumber(value)}`)
    }
  }
  return `${lines.join('\n')}\n`
}

function writeLabels(labels: Readonly<Record<string, string>>): string {
  const written = Object.entries(labels)
    .filter(([, value]) => value !== '')
    .map(([label, value]) => `${label}="${escaped(value)}"`)
  return written.length === 0 ? '' : `{${written.join(',')}}`
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function writeNumber(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
