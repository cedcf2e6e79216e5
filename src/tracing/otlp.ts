import { Outbound } from '../outbound.ts'
import type { Proxies } from '../proxies.ts'

/** Something that has happened, in OTLP's JSON form. */
export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  /** 2 a server's, 3 a client's. */
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

/** Where spans go. */
export interface OtlpOptions {
  /** The whole address, with `/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
  /** The proxies that they are sent through. */
  readonly proxies: Proxies
  /** Told of a batch that was lost. */
  readonly onFailure: (error: unknown) => void
}

/** Milliseconds for which spans are gathered. */
const gatheringTime = 1000
/** So many are sent at once, and so many wait at most; later ones are dropped. */
const batchSize = 512
const mostWaiting = 2048
/** Milliseconds that one sending may take. */
const sendingTime = 5000

/** Sends spans by OTLP over HTTP, as JSON, in batches: a receiver that is slow or away holds nobody up. */
export class OtlpExporter {
  readonly #options: OtlpOptions
  readonly #outbound: Outbound
  #waiting: Span[] = []
  #timer: NodeJS.Timeout | undefined
  #sending: Promise<void> | undefined

  constructor(options: OtlpOptions) {
    this.#options = options
    this.#outbound = new Outbound(options.proxies, sendingTime)
  }

  add(span: Span): void {
    if (this.#waiting.length >= mostWaiting) return
    this.#waiting.push(span)
    if (this.#waiting.length >= batchSize) void this.flush()
    else this.#timer ??= setTimeout(() => void this.flush(), gatheringTime).unref()
  }

  /** Sends what waits; never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  /** Closes the connections, once nothing is sent any more. */
  close(): Promise<void> {
    return this.#outbound.close()
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      try {
        await this.#send(this.#waiting.splice(0, batchSize))
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
      signal: AbortSignal.timeout(sendingTime),
      dispatcher: await this.#outbound.dispatcherFor(new URL(url)),
    })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`the receiver of traces answered ${response.status}`)
  }
}

/** Attributes in OTLP's JSON form; those that are undefined or empty are left out. */
export function attributes(values: Readonly<Record<string, string | number | undefined>>): readonly Attribute[] {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined || value === '') return []
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }]
  })
}

/** This moment, as OTLP has it. */
export function timeNow(): string {
  // Microseconds: nanoseconds are more than a number can hold.
  return `${Math.round((performance.timeOrigin + performance.now()) * 1000)}000`
}
