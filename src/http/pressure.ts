import underPressure from '@fastify/under-pressure'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Clock, machineClock } from '../clock.ts'
import { overloaded } from '../errors.ts'

/** What the guard sees of the event loop. */
export interface LoopMonitor extends Clock {
  /** Milliseconds that the event loop has been late, at the mean since a look before. */
  delayMs(): number
}

/** Milliseconds of one turn of the event loop that requests are taken in while there is overload. */
const turnBudgetMs = 40
/** The same for large requests while there is no sign of overload; small ones are all taken then. */
const burstBudgetMs = 150
/** Bytes of a body that make a request a large one. Thousands of small ones may come at once: so streams begin. */
const minLargeBytes = 8192
/** Milliseconds between two looks at how late the event loop is. */
const sampleIntervalMs = 500
/** Milliseconds that it is late, at the mean of an interval: twice in a row is overload, once may be a burst. */
const maxDelayMs = 100
/** Milliseconds without a refusal after which overload is over. */
const calmAfterMs = 1000
/** So many looks at requests let pass in each turn, however long it takes: a few slow requests are no overload. */
const minTakenPerTurn = 12

/** Never refused: a supervisor that hears nothing would end a service that is only busy. */
const probeRoutes = new Set(['/livez', '/readyz'])

/** Made once: with its stack, making one costs as much as the rest of a refusal. */
const refusal = overloaded()

/**
 * Refuses what would only wait, with a 503 that costs next to nothing: in each turn of the event loop requests are taken
 * until its budget is used up, and the rest of the turn is refused (docs/decisions/0013-under-load.md). Requests
 * that wait for an upstream and replies that are being streamed count for nothing but the time that they use.
 * @param monitor what is seen of the event loop; measured without it
 * @returns looks once more at a large request that has waited for the database, right before its work begins: throws
 *   that 503
 */
export async function shedLoadUnderPressure(
  app: FastifyInstance,
  monitor?: LoopMonitor,
): Promise<(request: FastifyRequest) => void> {
  const loop = monitor ?? (await measuredLoop(app))
  let isLate = false
  let isOverloaded = false
  const sampling = loop.setTimeout(() => {
    const wasLate = isLate
    isLate = loop.delayMs() > maxDelayMs
    isOverloaded = isLate && wasLate
    sampling.refresh()
  }, sampleIntervalMs)
  app.addHook('onClose', async () => void sampling.close())

  /** 0 until a request has come in this turn. */
  let turnBegan = 0
  let taken = 0
  let isShedding = false
  let lastRefusal = Number.NEGATIVE_INFINITY
  const endTurn = () => {
    turnBegan = 0
  }
  const isTaken = ({ headers }: FastifyRequest): boolean => {
    const now = loop.now()
    if (turnBegan === 0) {
      turnBegan = now
      taken = 0
      isShedding = now - lastRefusal < calmAfterMs || isOverloaded
      // Node runs these when it has read what there is on all sockets.
      setImmediate(endTurn)
    }
    const elapsed = now - turnBegan
    if (++taken <= minTakenPerTurn || elapsed <= turnBudgetMs) return true
    if (!isShedding && (elapsed <= burstBudgetMs || !isLarge(headers))) return true
    lastRefusal = now
    isShedding = true
    return false
  }
  app.addHook('onRequest', (request, _reply, done) => {
    // In this order, since what Fastify tells of a route it puts together anew each time.
    if (isTaken(request) || probeRoutes.has(request.routeOptions.url ?? '')) done()
    else done(refusal)
  })
  // A body may take its time to come, and many may be complete in one turn: only then the work begins.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body === undefined || isTaken(request)) done()
    else done(refusal)
  })
  return (request) => {
    if (isLarge(request.headers) && !isTaken(request)) throw refusal
  }
}

/** The machine's own event loop. */
async function measuredLoop(app: FastifyInstance): Promise<LoopMonitor> {
  // Given no bounds of its own it only measures, and costs a request nothing.
  await app.register(underPressure, { sampleInterval: sampleIntervalMs })
  return { ...machineClock, delayMs: () => app.memoryUsage().eventLoopDelay }
}

/** Whether a request brings much; one that does not say how much may bring anything. */
function isLarge(headers: FastifyRequest['headers']): boolean {
  return Number(headers['content-length']) > minLargeBytes || headers['transfer-encoding'] !== undefined
}
