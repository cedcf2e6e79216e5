import { setImmediate } from 'node:timers/promises'

/** A call or a whole answer of more bytes has a turn of its own, and a piece of a stream: usually a piece is a few events. */
export const smallAnswerBytes = 256 * 1024
export const smallPieceBytes = 16 * 1024

let last: Promise<unknown> = Promise.resolve()

/**
 * Large answers that arrive together must not hold other requests together. So each has a turn of the event loop of its own.
 * @returns a promise that resolves in the turn; undefined for at most `smallBytes`
 */
export function ownTurn(bytes: number, smallBytes: number): Promise<void> | undefined {
  if (bytes <= smallBytes) return undefined
  const turn = last.then(() => setImmediate())
  last = turn
  return turn
}
