/** A plant on its way out of an account, or into one. */
export interface PortablePlant {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

/** Takes all plants of an account, of one moment and in the order of their ids. What it throws is thrown to the caller. */
export interface PlantTaker {
  /** Comes first, with how many there are; once more where the database had to begin anew. */
  begin(count: number): void
  /** Some of them, as often as it takes. */
  add(plants: Iterable<PortablePlant>): void
  /** All have come. */
  end(): void
}

/** What accounts own, as far as it is moved and deleted with them. Every method refuses an account that is not there. */
export interface AccountContents {
  /** Hands the account's own plants over. */
  exportPlants(account: string, taker: PlantTaker): Promise<void>
  /**
   * Adds plants to an account, all of them or none.
   * Refuses ids that are taken; `place` says where the plant at this index came from, as the sentence's begin.
   */
  importPlants(account: string, plants: readonly PortablePlant[], place: (index: number) => string): Promise<void>
  /**
   * Deletes an account with its keys, plants, characters, grants and idempotency keys, in one transaction, once `keeper` has
   * taken the plants; nothing is deleted when that throws. What it has used stays in the ledger.
   * Refuses one with the last working key of the scope `admin`.
   */
  deleteAccount(account: string, keeper: PlantTaker): Promise<void>
}
