/** A call that a clock will make. */
export interface Timer {
  /** Begins to wait anew, as long as at first; after the call too. */
  refresh(): unknown
  /** Calls it off. */
  close(): unknown
}

/** Tells how time passes, and wakes: the machine's clock, or one of a test, which says how time passes. */
export interface Clock {
  /** Milliseconds since some moment; it never goes back. */
  now(): number
  /** Calls back once, after so many milliseconds. */
  setTimeout(callback: () => void, milliseconds: number): Timer
}

/** The machine's. */
export const machineClock: Clock = {
  now: performance.now.bind(performance),
  setTimeout,
}

/** The machine's, whose calls keep no process from its end. */
export const unrefClock: Clock = {
  ...machineClock,
  setTimeout: (call, milliseconds) => setTimeout(call, milliseconds).unref(),
}

/**
 * Resolves after so many milliseconds.
 * @throws the signal's reason when that aborts first
 */
export function pause(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const leave = () => {
      alarm.close()
      reject(signal.reason)
    }
    const alarm = clock.setTimeout(() => {
      signal.removeEventListener('abort', leave)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', leave, { once: true })
  })
}
