import { Bucket } from './bucket.ts'
import { Spending, type SpentBetween } from './spending.ts'

/** Everything that is counted for one key or one account. */
export class Subject {
  /** `key:ID` or `account:ID`, as the ledger knows it. */
  readonly name: string
  readonly requests = new Bucket()
  readonly tokens = new Bucket()
  /** Chat requests that are going on. */
  chats = 0
  /** Tokens that those may still spend. */
  reserved = 0
  #spending: Spending | undefined
  #spendingRead = Number.NEGATIVE_INFINITY

  constructor(name: string) {
    this.name = name
  }

  /** What it has spent, once somebody has asked for it. */
  get spending(): Spending | undefined {
    return this.#spending
  }

  /**
   * What it has spent; the past is there when this resolves.
   * @param keptFor milliseconds after which it is read again, since others spend too
   * @throws what the ledger says when it cannot be read; the next one asks it again
   */
  async loadSpending(spent: SpentBetween, now: number, keptFor: number): Promise<Spending> {
    if (now - this.#spendingRead >= keptFor) this.#spending = undefined
    if (!this.#spending) this.#spendingRead = now
    this.#spending ??= new Spending(this.name, spent, now)
    const spending = this.#spending
    try {
      await spending.ready
    } catch (error) {
      if (this.#spending === spending) this.#spending = undefined
      throw error
    }
    return spending
  }

  /** Whether forgetting it loses nothing: what it has spent is in the ledger. */
  isIdle(now: number): boolean {
    return this.chats === 0 && this.requests.isEmpty(now) && this.tokens.isEmpty(now)
  }
}
