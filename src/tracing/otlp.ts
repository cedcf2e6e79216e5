import { Outbound } from '../outbound.ts'
import type { Proxies } from '../proxies.ts'

/** A span in OTLP's JSON form. */
export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  /** 2 is the span of a server, 3 the span of a client. */
  readonly kind: 2 | 3
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly events?: readonly { readonly name: string; readonly timeUnixNano: string }[]
  /** 2 is an error. */
  readonly status: { readonly code?: 2 }
}

/** A name and a value, in OTLP's JSON form. */
interface Attribute {
  readonly key: string
  readonly value: { readonly stringValue: string } | { readonly intValue: string }
}

/** The receiver of spans, and how spans are sent. */
export interface OtlpOptions {
  /** The whole URL, with `/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
  /** The proxies for outgoing requests. */
  readonly proxies: Proxies
  /** Called when a batch was lost. */
  readonly onFailure: (error: unknown) => void
}

/** Milliseconds for which spans are collected for a batch. */
const batchDelayMs = 1000
/** The most spans of one batch, and of the queue. While the queue is full, further spans are dropped. */
const batchSize = 512
const maxQueuedSpans = 2048
const sendTimeoutMs = 5000

/** Sends spans in batches as OTLP over HTTP in JSON. A slow or missing receiver does not delay requests. */
export class OtlpExporter {
  readonly #options: OtlpOptions
  readonly #outbound: Outbound
  #queue: Span[] = []
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | undefined

  constructor(options: OtlpOptions) {
    this.#options = options
    this.#outbound = new Outbound(options.proxies, sendTimeoutMs)
  }

  add(span: Span): void {
    if (this.#queue.length >= maxQueuedSpans) return
    this.#queue.push(span)
    if (this.#queue.length >= batchSize) void this.flush()
    else this.#timer ??= setTimeout(() => void this.flush(), batchDelayMs).unref()
  }

  /** Sends the queued spans; never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  /** Closes the connections after the last request. */
  close(): Promise<void> {
    return this.#outbound.close()
  }

  async #sendAll(): Promise<void> {
    while (this.#queue.length > 0) {
      try {
        await this.#send(this.#queue.splice(0, batchSize))
      } catch (error) {
        this.#options.onFailure(error)
      }
    }
  }

  async #send(spans: readonly Span[]): Promise<void> {
    const { url, headers, serviceName } = this.#options
    const resource = { attributes: attributes({ 'service.name': serviceName }) }
    const scopeSpans = [{ scope: { name: 'conservatory' }, spans }]
    const { fetch } = await import('undici')
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans }] }),
      redirect: 'error',
      signal: AbortSignal.timeout(sendTimeoutMs),
      dispatcher: await this.#outbound.dispatcherFor(new URL(url)),
    })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`the receiver of traces answered ${response.status}`)
  }
}

/** Attributes in OTLP's JSON form; undefined and empty values are left out. */
export function attributes(values: Readonly<Record<string, string | number | undefined>>): readonly Attribute[] {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined || value === '') return []
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }]
  })
}

/** The current time in Unix nanoseconds, as a string. */
export function timeNow(): string {
  // The time is rounded to microseconds, because a JavaScript number cannot hold Unix nanoseconds exactly.
  return `${Math.round((performance.timeOrigin + performance.now()) * 1000)}000`
}
