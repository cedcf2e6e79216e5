import { Response } from 'undici'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { readWhole } from '../upstream/answer.ts'
import { CostCounter, EventCostCounter, maxUnitsAtOnce } from '../upstream/cost-counter.ts'
import { type Pieces, readStart, tooLarge } from '../upstream/errors.ts'
import { answerScheduler, unitsOf } from '../upstream/turn-scheduler.ts'

/** The most bytes of a streamed answer. */
const maxStreamBytes = 64 * 1024 ** 2
/** The most events of a streamed answer. The longest answers have fewer tokens. A package takes about 10 µs for each event. */
const maxEvents = 150_000
/** A group of events goes to the package when the group has this number of units (`turn-scheduler.ts`). */
const unitsPerGroup = 8000

/** The context of a package's call that its `fetch` needs. */
export interface AnswerContext {
  readonly isStream: boolean
  /** Opens a count of the answer's bytes in memory. The count ends with the request. */
  readonly openHeld: () => Pick<HeldBytes, 'set' | 'setCopies'> | undefined
}

/**
 * Bounds an upstream's answer before the package gets the answer, because packages parse a whole answer, or an event of a stream,
 * in one synchronous call. The answer also waits for its turn of the event loop (`turn-scheduler.ts`). Only the start of an
 * error's body is read.
 * @throws ApiError 502 for an answer over a bound, 503 if there is no room for its bytes. A stream fails with these errors later,
 *   while it is read
 */
export async function boundedAnswer(response: Response, { isStream, openHeld }: AnswerContext): Promise<Response> {
  const { body, status, statusText } = response
  if (!body) return response
  const headers = new Headers(response.headers)
  // undici's `fetch` has already decompressed the body.
  headers.delete('content-encoding')
  headers.delete('content-length')
  const as = (bounded: string | Buffer | ReadableStream) => new Response(bounded, { status, statusText, headers })
  const pieces = piecesOf(body)
  if (status >= 300) return as(await readStart(pieces))
  const held = openHeld()
  if (isStream) return as(ReadableStream.from(boundedEvents(pieces, held)))
  const counter = new CostCounter()
  const bytes = await readWhole(pieces, held, (piece) => {
    counter.countAll(piece)
    if (counter.units > maxUnitsAtOnce) throw tooLarge()
  })
  await answerScheduler.take(counter.units + unitsOf(bytes.length))
  return as(bytes)
}

/** The pieces of an answer; `return` aborts the answer. */
function piecesOf(body: NonNullable<Response['body']>): Pieces {
  const reader = body.getReader()
  const end = () => reader.cancel().catch(() => {})
  return {
    return: end,
    async *[Symbol.asyncIterator]() {
      try {
        for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value
      } finally {
        void end()
      }
    },
  }
}

/**
 * Passes events on in groups. Each group is read in one turn of the event loop.
 * @throws ApiError 502 for too large an event, too many events, or too long a stream; 503 if there is no room for an event
 */
async function* boundedEvents(pieces: Pieces, held: Pick<HeldBytes, 'set'> | undefined): AsyncIterable<Uint8Array> {
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
      await answerScheduler.take(together)
      yield piece.subarray(start, end)
      start = end
      together = 0
    }
  }
}
