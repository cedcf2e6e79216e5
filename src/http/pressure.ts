import underPressure from '@fastify/under-pressure'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Clock, machineClock } from '../clock.ts'
import { overloaded } from '../errors.ts'

/** A clock, and the delay of the event loop. */
export interface LoopMonitor extends Clock {
  /** The mean delay of the event loop in the last interval of `sampleIntervalMs`. */
  delayMs(): number
}

/** While load is shed, requests are accepted only during this time of each turn of the event loop. */
const turnBudgetMs = 40
/** While no load is shed, large requests are accepted only during this time of each turn. Small requests are always accepted. */
const burstBudgetMs = 150
/** A request with a longer body is large. Thousands of small requests may arrive together, as when many streams begin. */
const minLargeBytes = 8192
/** The time between two measurements of the event loop's delay. */
const sampleIntervalMs = 500
/** A higher mean delay in two intervals in a row is overload. A higher delay in only one interval may be a burst. */
const maxDelayMs = 100
/** After this time without a refusal, load shedding ends. */
const calmAfterMs = 1000
/** This number of checks in each turn always passes, even if the turn lasts long, because a few slow requests are no overload. */
const minTakenPerTurn = 12

/** These routes are never refused: without an answer, a supervisor would restart a service that is only busy. */
const probeRoutes = new Set(['/livez', '/readyz'])

/** All refusals share this error, because making an error with its stack costs as much as the rest of a refusal. */
const refusal = overloaded()

/**
 * Sheds load: in each turn of the event loop, requests are accepted until the turn's budget is used up. The other requests of the
 * turn get a cheap 503 (docs/decisions/0013-under-load.md). Requests that wait for an upstream and replies that are being
 * streamed use only as much of the budget as they use time.
 * @param monitor measures the event loop; by default the event loop of the process
 * @returns a further check, which throws the same 503. It is for a large request that has waited for the database, and is called
 *   right before the work of this request begins
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

  /** The time of the first check of this turn; undefined before this check. Also the number of checks in this turn. */
  let turnBegan: number | undefined
  let taken = 0
  let isShedding = false
  let lastRefusal = Number.NEGATIVE_INFINITY
  const endTurn = () => {
    turnBegan = undefined
  }
  const isTaken = ({ headers }: FastifyRequest): boolean => {
    const now = loop.now()
    if (turnBegan === undefined) {
      turnBegan = now
      taken = 0
      isShedding = now - lastRefusal < calmAfterMs || isOverloaded
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
    // The route is checked second, because Fastify builds `routeOptions` anew at each access.
    if (isTaken(request) || probeRoutes.has(request.routeOptions.url ?? '')) done()
    else done(refusal)
  })
  // A second check: the work begins with the complete body, and many bodies may be complete in one turn.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body === undefined || isTaken(request)) done()
    else done(refusal)
  })
  return (request) => {
    if (isLarge(request.headers) && !isTaken(request)) throw refusal
  }
}

async function measuredLoop(app: FastifyInstance): Promise<LoopMonitor> {
  // Without bounds the package only measures, and costs a request nothing.
  await app.register(underPressure, { sampleInterval: sampleIntervalMs })
  return { ...machineClock, delayMs: () => app.memoryUsage().eventLoopDelay }
}

/** Whether a request has a large body, or a body of unknown length. */
function isLarge(headers: FastifyRequest['headers']): boolean {
  return Number(headers['content-length']) > minLargeBytes || headers['transfer-encoding'] !== undefined
}
