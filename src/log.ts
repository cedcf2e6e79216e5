import pino, { type Logger } from 'pino'
import { printableLines } from './print.ts'

/** The log, and a way to flush it. */
export interface Log {
  readonly logger: Logger
  /** Writes the buffered lines, if they can be written. */
  close(): Promise<void>
}

/** Milliseconds between two flushes. Lines are buffered, so that one write has many lines. */
const flushIntervalMs = 100

/** So many buffered bytes are written immediately, before the next flush. */
const minWriteBytes = 8192

/** The most bytes that are buffered while writing fails. Further lines are dropped until there is room. */
const maxBufferedBytes = 4 * 1024 ** 2

/** Characters that control a terminal and that JSON does not escape. A line may contain texts of a caller or an upstream. */
const steering = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/

/** Most lines have only printable ASCII. This search takes a fifth of the time of the search above. */
const notPlain = /[^\n -~]/

function spelledOut(line: string): string {
  return notPlain.test(line) && steering.test(line) ? printableLines(line) : line
}

let lastMs = 0
let lastTime = ''

/** The field with the time of a line. Under load many lines have one millisecond, and writing a date takes 2 % of a small request. */
function isoTime(): string {
  const now = Date.now()
  if (now !== lastMs) {
    lastMs = now
    lastTime = `,"time":"${new Date(now).toISOString()}"`
  }
  return lastTime
}

/** Opens the log: JSON lines on stdout, with times in ISO 8601 (UTC), buffered for at most 100 ms. A killed process loses the buffered lines. */
export function openLog(level: string): Log {
  const destination = pino.destination({
    dest: 1,
    sync: false,
    minLength: minWriteBytes,
    maxLength: maxBufferedBytes,
  })
  // A full disk must not stop the service: the buffered lines are written later.
  let isFailing = false
  destination.on('error', () => {
    isFailing = true
  })
  destination.on('write', () => {
    isFailing = false
  })
  // While writing fails, flushSync would retry for ever, and the process would never end.
  const flushSync = destination.flushSync.bind(destination)
  destination.flushSync = () => {
    if (!isFailing) flushSync()
  }
  const timer = setInterval(() => destination.flush(), flushIntervalMs)
  timer.unref()
  return {
    logger: pino({ level, timestamp: isoTime, hooks: { streamWrite: spelledOut } }, destination),
    async close() {
      clearInterval(timer)
      await new Promise((resolve) => destination.flush(resolve))
      destination.flushSync()
    },
  }
}
