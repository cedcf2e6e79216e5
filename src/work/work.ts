import { type Clock, unrefClock } from '../clock.ts'
import { RecentAccounts } from './accounts.ts'
import { inlineUnits, maxUnits, OutOfFuel, spentUnits, tooComplex, withFuel } from './fuel.ts'
import type { Job } from './job.ts'
import type { WorkerPool } from './pool.ts'

/** The time in which all work of an account goes to the pool, after one of its requests spent the units of small work. */
const spentMs = 30_000

/** The heavy work of one request. */
export interface Work {
  /**
   * Runs small work here. All such work of a request has `inlineUnits` in all. If they are spent, the same job runs again in the
   * pool, from the same input.
   * @param param the field of the request that causes the work, for errors
   * @throws ApiError 400 `too_complex`, 503 `overloaded`, and the reason of the owner's signal
   */
  run<Input, Output>(param: string, job: Job<Input, Output>, input: Input): Output | Promise<Output>
  /** Runs a job in the pool at once: for large input. It throws the same errors. */
  runInPool<Input, Output>(param: string, job: Job<Input, Output>, input: Input): Promise<Output>
}

/** The account id for work without a key. No account has this id. The queue treats such work as the work of one account. */
export const noAccount = 0

/** The owner of some work. */
export interface Owner {
  readonly account: number
  /** Aborts when the result is not needed any more. */
  readonly signal?: AbortSignal
}

/** Opens the work of requests. */
export class Works {
  readonly #pool: WorkerPool
  readonly #spent: RecentAccounts

  constructor(pool: WorkerPool, clock: Clock = unrefClock) {
    this.#pool = pool
    this.#spent = new RecentAccounts(clock, spentMs)
  }

  /** Opens the work of one request. */
  workOf(owner: Owner): Work {
    let left = inlineUnits
    const runInPool: Work['runInPool'] = (param, job, input) => this.#pool.run(job, input, { ...owner, param })
    return {
      run: (param, job, input) => {
        if (this.#spent.has(owner.account)) return runInPool(param, job, input)
        owner.signal?.throwIfAborted()
        try {
          return withFuel(left, () => {
            try {
              return job.run(input)
            } finally {
              left -= spentUnits()
            }
          })
        } catch (error) {
          if (!(error instanceof OutOfFuel)) throw error
          this.#spent.add(owner.account)
          return runInPool(param, job, input)
        }
      },
      runInPool,
    }
  }
}

/** Work that runs here and now, for commands, because no requests wait in a command. Each job has the budget of one in the pool. */
export function workAtOnce() {
  const run = <Input, Output>(param: string, job: Job<Input, Output>, input: Input): Output => {
    try {
      return withFuel(maxUnits, () => job.run(input))
    } catch (error) {
      throw error instanceof OutOfFuel ? tooComplex(param) : error
    }
  }
  return {
    run,
    runInPool: async <Input, Output>(param: string, job: Job<Input, Output>, input: Input): Promise<Output> =>
      run(param, job, input),
  } satisfies Work
}
