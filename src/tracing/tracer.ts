import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { failureName } from '../models/faults.ts'
import type { WatchAttempt } from '../models/routing/attempt.ts'
import { childOf, readContext, type TraceContext, writeContext } from './context.ts'
import { attributes, OtlpExporter, type OtlpOptions, timeNow } from './otlp.ts'

/**
 * The most traced requests in one second. Without this bound, at ten thousand requests a second, writing the spans would take
 * more time than answering the requests.
 */
const maxTracesPerSecond = 100

/** Milliseconds for which a stopping service waits until the last spans are sent. */
const closeTimeoutMs = 1000

/**
 * Traces requests and their attempts at models, with OpenTelemetry's names. A span contains no text, key or path of a request. It
 * contains the request's header `tracestate` unchanged.
 */
export class Tracer {
  readonly #exporter: OtlpExporter
  #second = 0
  #traced = 0

  constructor(options: OtlpOptions) {
    this.#exporter = new OtlpExporter(options)
  }

  /**
   * Adds a hook that records a span for each traced request. If `traceparent` names a span of the caller, that span is the
   * parent.
   */
  traceRequests(app: FastifyInstance): void {
    app.addHook('onRequest', (request, reply, done) => {
      const parent = readContext(request.headers.traceparent, request.headers.tracestate)
      if (parent?.isSampled === false || !this.#mayTrace()) {
        // Upstreams get the caller's context with the flag "not sampled".
        if (parent) request.trace = writeContext({ ...parent, isSampled: false })
        done()
        return
      }
      const context = childOf(parent)
      request.trace = writeContext(context)
      const startTimeUnixNano = timeNow()
      reply.raw.once('close', () => {
        const { method, failure } = request
        const route = request.routeOptions.url
        const status = reply.raw.writableFinished ? reply.statusCode : 499
        this.#add(context, parent, startTimeUnixNano, {
          name: route === undefined ? method : `${method} ${route}`,
          kind: 2,
          isError: status >= 500,
          attributes: {
            'http.request.method': method,
            'http.route': route,
            'http.response.status_code': status,
            'url.scheme': 'http',
            'error.type': failure,
            'conservatory.request.id': request.id,
          },
        })
      })
      done()
    })
  }

  /** Records a span for an attempt at a model. In a request that is not traced, it only forwards the caller's context. */
  readonly watchAttempt: WatchAttempt = ({ configuredName, request, retries }) => {
    const parent = readContext(request.trace?.['traceparent'], request.trace?.['tracestate'])
    if (!parent?.isSampled) return { ...(request.trace ? { headers: request.trace } : {}), began() {}, ended() {} }
    const context = childOf(parent)
    const startTimeUnixNano = timeNow()
    let firstToken: string | undefined
    return {
      headers: writeContext(context),
      began() {
        firstToken = timeNow()
      },
      ended: (error) =>
        this.#add(context, parent, startTimeUnixNano, {
          name: `chat ${configuredName}`,
          kind: 3,
          isError: error !== undefined,
          attributes: {
            'gen_ai.operation.name': 'chat',
            'gen_ai.request.model': configuredName,
            'http.request.resend_count': retries === 0 ? undefined : retries,
            'error.type': error && failureName(error),
          },
          ...(firstToken === undefined ? {} : { events: [{ name: 'first_token', timeUnixNano: firstToken }] }),
        }),
    }
  }

  /** Sends the queued spans, and waits at most a second until they are sent; never rejects. */
  async close(): Promise<void> {
    const sent = this.#exporter.flush().then(() => this.#exporter.close())
    await Promise.race([sent, sleep(closeTimeoutMs, undefined, { ref: false })])
  }

  #add(
    { traceId, spanId, state }: TraceContext,
    parent: TraceContext | undefined,
    startTimeUnixNano: string,
    span: {
      readonly name: string
      readonly kind: 2 | 3
      readonly isError: boolean
      readonly attributes: Readonly<Record<string, string | number | undefined>>
      readonly events?: readonly { readonly name: string; readonly timeUnixNano: string }[]
    },
  ): void {
    const { isError, ...rest } = span
    this.#exporter.add({
      ...rest,
      traceId,
      spanId,
      ...(parent ? { parentSpanId: parent.spanId } : {}),
      ...(state === undefined ? {} : { traceState: state }),
      startTimeUnixNano,
      endTimeUnixNano: timeNow(),
      attributes: attributes(span.attributes),
      status: isError ? { code: 2 } : {},
    })
  }

  #mayTrace(): boolean {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#traced = 0
    }
    return ++this.#traced <= maxTracesPerSecond
  }
}
