import pino, { type DestinationStream, type Logger } from 'pino'

/** The log, and the way to write what it still holds. */
export interface Log {
  readonly logger: Logger
  close(): void
}

/** Milliseconds for which a line may be held, so that many lines are one write. */
const heldFor = 100

/** Bytes after which lines are written at once. */
const heldBytes = 8192

/** Opens the log: JSON lines on stdout, held for a moment under load. What a killed process held is lost. */
export function openLog(level: string): Log {
  const destination: DestinationStream & { flush(): void; flushSync(): void } = pino.destination({
    dest: 1,
    sync: false,
    minLength: heldBytes,
  })
  const timer = setInterval(() => destination.flush(), heldFor)
  timer.unref()
  return {
    logger: pino({ level }, destination),
    close() {
      clearInterval(timer)
      destination.flushSync()
    },
  }
}
