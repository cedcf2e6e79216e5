import type { Clock, Timer } from '../../src/clock.ts'
import type { LoopMonitor } from '../../src/http/pressure.ts'

interface Pending extends Timer {
  readonly milliseconds: number
  due: number
  readonly callback: () => void
}

/** A clock that only the test advances, so that no machine is too slow or too fast for a timeout. */
export class TestClock implements Clock {
  #now = 0
  readonly #pending = new Set<Pending>()
  readonly #lookouts = new Set<() => void>()

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, milliseconds: number): Timer {
    const start = () => {
      timer.due = this.#now + milliseconds
      this.#pending.add(timer)
      // A timer of 0 ms fires without an advance by the test.
      if (milliseconds <= 0) setImmediate(() => this.advance(0))
      this.#look()
    }
    const close = () => {
      this.#pending.delete(timer)
      this.#look()
    }
    const timer: Pending = { milliseconds, due: 0, callback, refresh: start, close }
    start()
    return timer
  }

  /** Advances the clock. Timers fire in order, each at its own time. */
  advance(milliseconds: number): void {
    const end = this.#now + milliseconds
    for (;;) {
      const [next] = [...this.#pending].filter(({ due }) => due <= end).toSorted((one, other) => one.due - other.due)
      if (!next) break
      this.#now = Math.max(this.#now, next.due)
      this.#pending.delete(next)
      next.callback()
    }
    this.#now = end
  }

  /** Whether a timer of this duration is pending. */
  isWaiting(milliseconds: number): boolean {
    return [...this.#pending].some((timer) => timer.milliseconds === milliseconds)
  }

  /** Resolves as soon as a timer of this duration is pending, or, if `isWanted` is false, as soon as no such timer is pending. */
  untilWaiting(milliseconds: number, isWanted = true): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (this.isWaiting(milliseconds) !== isWanted) return
        this.#lookouts.delete(look)
        resolve()
      }
      this.#lookouts.add(look)
      look()
    })
  }

  #look(): void {
    for (const look of this.#lookouts) look()
  }
}

/** Event-loop measurements for load shedding: no delay and no busy time, unless the test sets them. */
export class TestLoop extends TestClock implements LoopMonitor {
  /** The milliseconds that the clock advances at each reading. */
  perLook = 0
  /** The delay of the event loop in milliseconds. */
  lateness = 0

  override now(): number {
    this.advance(this.perLook)
    return super.now()
  }

  delayMs(): number {
    return this.lateness
  }
}
