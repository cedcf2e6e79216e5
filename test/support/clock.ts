import type { Timer, Clock } from '../../src/clock.ts'
import type { LoopMonitor } from '../../src/http/pressure.ts'

/** A call that waits for its time. */
interface Pending extends Timer {
  readonly milliseconds: number
  due: number
  readonly callback: () => void
}

/** A clock that stands still but for what the test lets pass: so nothing is too slow for a time limit, or too fast. */
export class TestClock implements Clock {
  #now = 0
  readonly #pending = new Set<Pending>()
  readonly #lookouts = new Set<() => void>()

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, milliseconds: number): Timer {
    const start = () => {
      alarm.due = this.#now + milliseconds
      this.#pending.add(alarm)
      // What waits for no time at all does not wait for the test either.
      if (milliseconds <= 0) setImmediate(() => this.advance(0))
      this.#look()
    }
    const close = () => {
      this.#pending.delete(alarm)
      this.#look()
    }
    const alarm: Pending = { milliseconds, due: 0, callback, refresh: start, close }
    start()
    return alarm
  }

  /** Lets so many milliseconds pass: what falls due meanwhile happens in its order, each at its time. */
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

  /** Whether something waits now that was to wait so many milliseconds. */
  isWaiting(milliseconds: number): boolean {
    return [...this.#pending].some((alarm) => alarm.milliseconds === milliseconds)
  }

  /** Resolves as soon as something waits, or (with false) nothing waits any more, that was to wait so many milliseconds. */
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

/** An event loop for the overload guard: never late, with no request taking any time, unless the test says so. */
export class TestLoop extends TestClock implements LoopMonitor {
  /** Milliseconds that pass from one look at the time to the next. */
  perLook = 0
  /** Milliseconds that it is late. */
  lateness = 0

  override now(): number {
    this.advance(this.perLook)
    return super.now()
  }

  delayMs(): number {
    return this.lateness
  }
}
