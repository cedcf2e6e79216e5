import type { RequestEnded, RequestObserver } from '../http/request-log.ts'
import { Histogram, type Metric, type Sample, writeMetrics } from '../instruments.ts'
import { failureName } from '../models/faults.ts'
import type { WatchAttempt } from '../models/routing/attempt.ts'
import type { Used } from '../usage/outcome.ts'

/** The values of the label for methods. Any other method is `_OTHER`, as in OpenTelemetry's conventions. */
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'])

/** Reads a metric at each scrape: one number, or several numbers with labels. */
type Read = () => number | Iterable<Sample>

/**
 * All metrics of the service. Requests, attempts at models, tokens and truncated prompts are recorded here. All other values are
 * read from the parts of the service at each scrape. If OpenTelemetry has a convention for a metric, its name and labels follow
 * the convention in Prometheus' spelling. Each label has a bounded number of values, and no value is a text of a caller.
 */
export class Metrics implements RequestObserver {
  readonly #metrics: Metric[] = []
  readonly #active = new Map<string, number>()
  readonly #truncated = new Map<string, number>()

  readonly requests = this.#histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Time from the head of a request to the end of its reply.',
    labels: ['http_request_method', 'http_route', 'http_response_status_code', 'error_type'],
    bounds: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  })

  readonly operations = this.#histogram({
    name: 'gen_ai_client_operation_duration_seconds',
    help: 'Time of one attempt at a model, to the end of its answer.',
    labels: ['gen_ai_operation_name', 'gen_ai_request_model', 'error_type'],
    bounds: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
  })

  readonly firstTokens = this.#histogram({
    name: 'gen_ai_server_time_to_first_token_seconds',
    help: 'Time from asking a model for a stream to its first event.',
    labels: ['gen_ai_operation_name', 'gen_ai_request_model'],
    bounds: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  })

  readonly tokens = this.#histogram({
    name: 'gen_ai_client_token_usage',
    help: 'Tokens of one chat request; estimated when the model does not report them.',
    labels: ['gen_ai_operation_name', 'gen_ai_request_model', 'gen_ai_token_type'],
    bounds: [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864],
  })

  constructor() {
    this.gauge('http_server_active_requests', 'Requests whose reply is not complete.', () =>
      [...this.#active].map(([method, value]) => ({ labels: { http_request_method: method }, value })),
    )
    this.counter(
      'conservatory_upstream_truncated_total',
      'Replies whose upstream has read under half of the prompt, by its own count.',
      () => [...this.#truncated].map(([model, value]) => ({ labels: { gen_ai_request_model: model }, value })),
    )
  }

  /** Adds a value that goes up and down, read at each scrape. */
  gauge(name: string, help: string, read: Read): void {
    this.#metrics.push({ name, help, type: 'gauge', samples: () => samplesOf(read()) })
  }

  /** Adds a value that only goes up, read at each scrape. */
  counter(name: string, help: string, read: Read): void {
    this.#metrics.push({ name, help, type: 'counter', samples: () => samplesOf(read()) })
  }

  /** Adds a metric of another part. */
  add(metric: Metric): void {
    this.#metrics.push(metric)
  }

  started(method: string): RequestEnded {
    const name = methods.has(method) ? method : '_OTHER'
    this.#active.set(name, (this.#active.get(name) ?? 0) + 1)
    return (route, status, seconds, failure) => {
      this.#active.set(name, (this.#active.get(name) ?? 0) - 1)
      this.requests.record(seconds, name, route, String(status), failure)
    }
  }

  /** Records the tokens of a chat request. */
  used(model: string, { promptTokens, completionTokens }: Pick<Used, 'promptTokens' | 'completionTokens'>): void {
    this.tokens.record(promptTokens, 'chat', model, 'input')
    this.tokens.record(completionTokens, 'chat', model, 'output')
    // The counter of truncated prompts must start at 0: Prometheus sees no increase if a new counter begins with 1.
    if (!this.#truncated.has(model)) this.#truncated.set(model, 0)
  }

  /** Counts a reply whose upstream has truncated the prompt. */
  truncated(model: string): void {
    this.#truncated.set(model, (this.#truncated.get(model) ?? 0) + 1)
  }

  /** All metrics in Prometheus' text format. */
  write(): string {
    return writeMetrics(this.#metrics)
  }

  #histogram(options: ConstructorParameters<typeof Histogram>[0]): Histogram {
    const histogram = new Histogram(options)
    this.#metrics.push(histogram)
    return histogram
  }
}

function samplesOf(found: number | Iterable<Sample>): Iterable<Sample> {
  return typeof found === 'number' ? [{ value: found }] : found
}

/**
 * Makes a watcher that records the attempts at models.
 * @param also a second watcher of the same attempts: the tracer, when tracing is on
 */
export function countAttempts({ operations, firstTokens }: Metrics, also?: WatchAttempt): WatchAttempt {
  return (attempted) => {
    const other = also?.(attempted)
    const { configuredName } = attempted
    const began = performance.now()
    const elapsed = () => (performance.now() - began) / 1000
    return {
      ...(other?.headers ? { headers: other.headers } : {}),
      began() {
        firstTokens.record(elapsed(), 'chat', configuredName)
        other?.began()
      },
      ended(error) {
        operations.record(elapsed(), 'chat', configuredName, error ? failureName(error) : '')
        other?.ended(error)
      },
    }
  }
}
