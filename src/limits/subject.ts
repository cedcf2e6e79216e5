import { Bucket } from './bucket.ts'
import type { Tally } from './counting.ts'
import { Spending, type SpentBetween } from './spending.ts'

/** The counts of one key or one account in this process. */
export class Subject implements Tally {
  /** `key:ID` or `account:ID`, as in the ledger. */
  readonly name: string
  readonly requests = new Bucket()
  readonly tokens = new Bucket()
  chats = 0
  reserved = 0
  /** The tokens that the subject has spent on one day; undefined until they are first read. */
  spending: Spending | undefined

  constructor(name: string) {
    this.name = name
  }

  /**
   * The tokens that the subject has spent on the day and in the month of `now`. Resolves when the ledger has been read.
   * @throws the ledger's error when the ledger cannot be read; the next call reads the ledger again
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

  /** Whether the subject can be dropped without a loss of counts. The spent tokens are in the ledger too. */
  isIdle(now: number): boolean {
    return this.chats === 0 && this.reserved === 0 && this.requests.isUnused(now) && this.tokens.isUnused(now)
  }
}
