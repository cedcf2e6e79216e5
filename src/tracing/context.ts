import { randomBytes } from 'node:crypto'

/** Where in a trace something happens, as W3C Trace Context has it. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** Whether somebody keeps the trace. */
  readonly isSampled: boolean
  /** What other systems carry along, as it came. */
  readonly state?: string
}

const form = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/
const stateForm = /^[\x20-\x7e]{1,512}$/

/** Reads the headers `traceparent` and `tracestate`; undefined where there are none that are well-formed. */
export function readContext(traceparent: unknown, tracestate: unknown): TraceContext | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && form.exec(traceparent)) || []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  const state = typeof tracestate === 'string' && stateForm.test(tracestate) ? { state: tracestate } : {}
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, ...state }
}

/** Writes a context as the headers that carry it on. */
export function writeContext({ traceId, spanId, isSampled, state }: TraceContext): Readonly<Record<string, string>> {
  const traceparent = `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
  return state === undefined ? { traceparent } : { traceparent, tracestate: state }
}

/** A sampled context below another one, or at the root of a new trace. */
export function childOf(parent: TraceContext | undefined): TraceContext {
  const traceId = parent?.traceId ?? randomBytes(16).toString('hex')
  const state = parent?.state === undefined ? {} : { state: parent.state }
  return { traceId, spanId: randomBytes(8).toString('hex'), isSampled: true, ...state }
}
