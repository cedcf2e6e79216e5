/** A timer that a clock has started. */
export interface Timer {
  /** Restarts the timer with its first duration, also after it has fired. */
  refresh(): unknown
  /** Cancels the timer. */
  close(): unknown
}

/** A source of time and timers: the machine's clock, or the clock of a test, which the test advances. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number
  /** Calls `callback` once, after `milliseconds`. */
  setTimeout(callback: () => void, milliseconds: number): Timer
}

/** The machine's clock. */
export const machineClock: Clock = {
  now: performance.now.bind(performance),
  setTimeout,
}

/** The machine's clock with timers that do not keep the process alive. */
export const unrefClock: Clock = {
  ...machineClock,
  setTimeout: (call, milliseconds) => setTimeout(call, milliseconds).unref(),
}

/**
 * Resolves after `milliseconds`.
 * @throws the signal's reason when the signal aborts first
 */
export function pause(clock: Clock, milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const leave = () => {
      timer.close()
      reject(signal.reason)
    }
    const timer = clock.setTimeout(() => {
      signal.removeEventListener('abort', leave)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', leave, { once: true })
  })
}

/**
 * Runs work in the background until it ends or is stopped. The work reports its own failures.
 * @returns a function that stops the work by its signal, and resolves when the work has ended
 */
export function inBackground(work: (signal: AbortSignal) => Promise<void>): () => Promise<void> {
  const end = new AbortController()
  const running = work(end.signal).catch(() => undefined)
  return () => {
    end.abort()
    return running
  }
}
