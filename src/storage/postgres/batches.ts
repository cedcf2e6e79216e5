import { ApiError } from '../../errors.ts'
import { batchSizes } from '../batch-sizes.ts'

interface Waiting<Write, Answer> {
  readonly write: Write
  readonly resolve: (answer: Answer) => void
  readonly reject: (reason: unknown) => void
}

/** Writes of one transaction at most, so that a batch is quick to repeat. */
const largest = 500

/**
 * Lets the writes that come while a transaction is under way share the next one: one round of statements and one commit
 * for all of them. They are done in the order in which they came.
 */
export class Batches<Write, Answer> {
  readonly #commit: (writes: readonly Write[]) => Promise<readonly (Answer | ApiError)[]>
  #waiting: Waiting<Write, Answer>[] = []
  #isRunning = false
  /** How many writes shared each commit that was made. */
  readonly sizes = batchSizes()

  /** @param commit does writes in one transaction; gives an answer, or a refusal, for each */
  constructor(commit: (writes: readonly Write[]) => Promise<readonly (Answer | ApiError)[]>) {
    this.#commit = commit
  }

  /** Does a write with others. @throws ApiError its refusal, or what was wrong with the whole transaction */
  add(write: Write): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ write, resolve, reject })
      if (this.#isRunning) return
      this.#isRunning = true
      setImmediate(() => void this.#run())
    })
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, largest)
      try {
        const answers = await this.#commit(batch.map(({ write }) => write))
        this.sizes.record(batch.length)
        for (const [index, { resolve, reject }] of batch.entries()) {
          const answer = answers[index]
          if (answer === undefined) reject(new Error('a write of the batch has no answer'))
          else if (answer instanceof ApiError) reject(answer)
          else resolve(answer)
        }
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isRunning = false
  }
}
