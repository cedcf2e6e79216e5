import { Headers, Response } from 'undici'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import type { Work } from '../../work.ts'
import { readWhole } from '../upstream/answer.ts'
import { CostCounter, EventCostCounter, maxUnitsAtOnce } from '../upstream/cost-counter.ts'
import { readStart, tooLarge } from '../upstream/errors.ts'
import type { UpstreamAnswer } from '../upstream/streamless-response.ts'
import { turnScheduler, unitsOf } from '../upstream/turn-scheduler.ts'

/** The most bytes of a streamed answer. */
const maxStreamBytes = 64 * 1024 ** 2
/** The most events of a streamed answer. The longest answers have 128,000 tokens. A package takes 13 µs for each event. */
const maxEvents = 131_072
/** A group of events goes to the package when the group has this number of units (`turn-scheduler.ts`). */
const unitsPerGroup = 8000

/** The context of a package's call that its `fetch` needs. */
export interface CallContext {
  readonly isStream: boolean
  /** Encodes the request and joins the answer, in steps. */
  readonly work: Work
  /** Opens a count of bytes in memory. The count ends with the request. */
  readonly openHeld: () => Pick<HeldBytes, 'set' | 'setCopies' | 'trySet'> | undefined
  /** Called when the upstream has the whole request. */
  readonly onSent?: () => void
}

/**
 * Bounds an upstream's answer before the package gets the answer, because packages parse a whole answer, or an event of a stream,
 * in one synchronous call. The answer also waits for its turn of the event loop (`turn-scheduler.ts`). Only the start of an
 * error's body is read.
 * @throws ApiError 502 for an answer over a bound, 503 if there is no room for its bytes. A stream fails with these errors later,
 *   while it is read
 */
export async function boundedAnswer(
  answer: UpstreamAnswer,
  { isStream, openHeld, work }: CallContext,
): Promise<Response> {
  const { status } = answer
  const headers = headersOf(answer)
  const as = (bounded: string | Buffer | ReadableStream | null) => new Response(bounded, { status, headers })
  if (statusesWithoutBody.has(status)) {
    answer.drain()
    return as(null)
  }
  if (status >= 300) return as(await readStart(answer))
  const held = openHeld()
  if (isStream) return as(ReadableStream.from(boundedEvents(answer, held)))
  const counter = new CostCounter()
  const bytes = await readWhole(answer, work, held, (piece) => {
    counter.countAll(piece)
    if (counter.units > maxUnitsAtOnce) throw tooLarge()
  })
  await turnScheduler.take(counter.units + unitsOf(bytes.length))
  return as(bytes)
}

/** Statuses with which a `Response` has no body. */
const statusesWithoutBody: ReadonlySet<number> = new Set([204, 205, 304])

/** The headers of an answer, without the headers that describe the bytes on the network. The answer is already decompressed. */
function headersOf({ headers }: UpstreamAnswer): Headers {
  const kept = new Headers()
  for (const [name, value = []] of Object.entries(headers)) {
    for (const each of [value].flat()) kept.append(name, each)
  }
  kept.delete('content-encoding')
  kept.delete('content-length')
  return kept
}

/**
 * Passes events on in groups. Each group is read in one turn of the event loop.
 * @throws ApiError 502 for too large an event, too many events, or too long a stream; 503 if there is no room for an event
 */
async function* boundedEvents(
  pieces: AsyncIterable<Uint8Array>,
  held: Pick<HeldBytes, 'set'> | undefined,
): AsyncIterable<Uint8Array> {
  const counter = new EventCostCounter()
  let size = 0
  let count = 0
  for await (const piece of pieces) {
    size += piece.length
    let start = 0
    let together = 0
    for (let end = 0; end < piece.length; ) {
      const event = counter.next(piece, end)
      if (event.units !== undefined) count++
      if (size > maxStreamBytes || count > maxEvents) throw tooLarge()
      end = event.end
      together += event.units ?? 0
      if (together < unitsPerGroup && end < piece.length) continue
      held?.set(2 * counter.unfinishedBytes)
      await turnScheduler.take(together)
      yield piece.subarray(start, end)
      start = end
      together = 0
    }
  }
}
