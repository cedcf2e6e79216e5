import { Bucket } from './bucket.ts'
import type { Tally } from './counting.ts'
import { Spending, type SpentBetween } from './spending.ts'

/** Everything that is counted in this process for one key or one account. */
export class Subject implements Tally {
  /** `key:ID` or `account:ID`, as the ledger knows it. */
  readonly name: string
  readonly requests = new Bucket()
  readonly tokens = new Bucket()
  chats = 0
  reserved = 0
  /** What it has spent on one day; there once somebody has asked for it. */
  spending: Spending | undefined

  constructor(name: string) {
    this.name = name
  }

  /**
   * What it has spent on the day of this time; the past is there when this resolves.
   * @throws what the ledger says when it cannot be read; the next one asks it again
   */
  async loadSpending(spent: SpentBetween, now: number): Promise<Spending> {
    if (!this.spending?.isOf(now)) this.spending = new Spending(this.name, spent, now)
    const spending = this.spending
    try {
      await spending.ready
    } catch (error) {
      if (this.spending === spending) this.spending = undefined
      throw error
    }
    return spending
  }

  /** Whether forgetting it loses nothing: what it has spent is in the ledger. */
  isIdle(now: number): boolean {
    return this.chats === 0 && this.reserved === 0 && this.requests.isEmpty(now) && this.tokens.isEmpty(now)
  }
}
