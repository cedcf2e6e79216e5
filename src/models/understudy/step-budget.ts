/** A schema that asks for a value too large to make. */
export class SchemaTooLargeError extends Error {
  override readonly name = 'SchemaTooLargeError'
}

/** Steps that a value may take. One is a letter or a keyword that is looked at: all together some 20 ms. */
const mostSteps = 1_000_000
/** What a part of a value costs besides: it is made, written and counted. */
const stepsOfPart = 50
/** What a letter of a value costs: it is made, written as JSON and counted in tokens. */
const stepsOfLetter = 10

/**
 * The budget that one value is made within. Whatever grows with the schema takes from it, before the work is done where
 * that can be told.
 */
export class Steps {
  #taken = 0

  /** Steps that have been taken so far. */
  get taken(): number {
    return this.#taken
  }

  /** @throws SchemaTooLargeError when there are not so many left */
  take(steps: number): void {
    this.#taken += steps
    if (this.#taken > mostSteps) throw new SchemaTooLargeError('its least value takes too much work')
  }

  /** Takes what a part of the value costs. */
  part(): void {
    this.take(stepsOfPart)
  }

  /** Takes what so many letters of the value cost. */
  letters(count: number): void {
    this.take(count * stepsOfLetter)
  }
}
