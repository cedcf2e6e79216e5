import { randomBytes } from 'node:crypto'

/** The position of a span in a trace, as in W3C Trace Context. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** Whether the trace is recorded. */
  readonly isSampled: boolean
  /** The header `tracestate` of other systems, unchanged. */
  readonly state?: string
}

/** A header of version 00 has exactly 55 characters. A header of a later version may have more fields. */
const form = /^(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const stateForm = /^[\x20-\x7e]{1,512}$/

/** Reads the headers `traceparent` and `tracestate`; undefined without a well-formed `traceparent`. */
export function readContext(traceparent: unknown, tracestate: unknown): TraceContext | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && form.exec(traceparent)) || []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  const state = typeof tracestate === 'string' && stateForm.test(tracestate) ? { state: tracestate } : {}
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, ...state }
}

/** The headers of a context for an upstream request. */
export function writeContext({ traceId, spanId, isSampled, state }: TraceContext): Readonly<Record<string, string>> {
  const traceparent = `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
  return state === undefined ? { traceparent } : { traceparent, tracestate: state }
}

/** A sampled context with a new span id. Without a parent, it is the root of a new trace. */
export function childOf(parent: TraceContext | undefined): TraceContext {
  const traceId = parent?.traceId ?? randomBytes(16).toString('hex')
  const state = parent?.state === undefined ? {} : { state: parent.state }
  return { traceId, spanId: randomBytes(8).toString('hex'), isSampled: true, ...state }
}
