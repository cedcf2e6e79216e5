import pino, { type Logger } from 'pino'
import { printableLines } from './print.ts'

/** The log, and the way to write what it still holds. */
export interface Log {
  readonly logger: Logger
  /** Writes what is held, where it can be written. */
  close(): Promise<void>
}

/** Milliseconds for which a line may be held, so that many lines are one write. */
const heldFor = 100

/** Bytes after which lines are written at once. */
const heldBytes = 8192

/** Bytes that are held at most while nothing can be written; later lines are dropped until there is room. */
const mostHeld = 4 * 1024 ** 2

/** What JSON leaves as it is, and a terminal does not: a caller's word may be in a line, and an upstream's. */
const steering = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/

function spelledOut(line: string): string {
  return steering.test(line) ? printableLines(line) : line
}

/** Opens the log: JSON lines on stdout, held for a moment under load. What a killed process held is lost. */
export function openLog(level: string): Log {
  const destination = pino.destination({
    dest: 1,
    sync: false,
    minLength: heldBytes,
    maxLength: mostHeld,
  })
  // A disk without room for the log is no reason to stop serving: what is held is tried again.
  let isFailing = false
  destination.on('error', () => {
    isFailing = true
  })
  destination.on('write', () => {
    isFailing = false
  })
  // It would try for ever, and the process never end.
  const flushSync = destination.flushSync.bind(destination)
  destination.flushSync = () => {
    if (!isFailing) flushSync()
  }
  const timer = setInterval(() => destination.flush(), heldFor)
  timer.unref()
  return {
    logger: pino({ level, hooks: { streamWrite: spelledOut } }, destination),
    async close() {
      clearInterval(timer)
      await new Promise((resolve) => destination.flush(resolve))
      destination.flushSync()
    },
  }
}
