import { overloaded } from '../errors.ts'

/** The most bytes of a body or a reply that is neither counted nor refused. Most are so small, and cost only one comparison. */
export const smallBytes = 64 * 1024

/**
 * The bytes of a body are multiplied by this factor while the body is worked on, since the work makes copies. A card is unpacked,
 * and becomes a text, values, and pieces for the disk. A chat becomes a text, values, texts that are searched for lore, a prompt,
 * and its receipt.
 */
const workFactor = 5
/** Bytes that a JSON value counts for in addition, because short texts and small objects take more memory than their JSON. */
const bytesOfValue = 150

/** All refusals are this one error: to make an error with its stack costs as much as the rest of a refusal. */
const refusal = overloaded('The bodies of requests and replies have no room now. Try again in a second.')

/**
 * Counts the bytes that requests hold in memory: bodies from their first byte until their reply is over, and replies until they
 * are read. All bytes together never exceed the bound, and the bytes of one account never exceed half of it. The last quarter of
 * the bound is only for a request whose account held nothing before (docs/decisions/0023-bytes-in-flight.md).
 */
export class BytesInFlight {
  readonly #maxBytes: number
  readonly #accounts = new Map<number, number>()
  #bytes = 0
  #refusals = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** How often bytes were refused. */
  get refusals(): number {
    return this.#refusals
  }

  /** Opens the count of one request's bytes, 0 at first. @returns the count, to be released when the request is over */
  open(account: number): HeldBytes {
    let isFirst = false
    const holds = () => this.#accounts.get(account) ?? 0
    const share = Math.floor(this.#maxBytes / 2)
    return new HeldBytes(share, (before, after) => {
      const more = after - before
      if (more > 0) {
        if (before === 0) isFirst = holds() === 0
        const bound = isFirst ? this.#maxBytes : Math.floor(this.#maxBytes * 0.75)
        if (this.#bytes + more > bound || holds() + more > share) {
          this.#refusals++
          throw refusal
        }
      }
      this.#bytes += more
      const left = holds() + more
      if (left > 0) this.#accounts.set(account, left)
      else this.#accounts.delete(account)
    })
  }

  /**
   * Counts the bytes of an account's card, multiplied as for work on a body, while the card is read.
   * @throws ApiError 503 when too many bytes are in flight
   */
  readonly during = async <T>(account: number, bytes: number, work: () => Promise<T>): Promise<T> => {
    const held = this.open(account)
    held.setWorkedOn(bytes)
    try {
      return await work()
    } finally {
      held.release()
    }
  }
}

/** The bytes that one request holds, with a count of their users: the reply, and work that goes on after the client left. */
export class HeldBytes {
  readonly #share: number
  readonly #change: (before: number, after: number) => void
  #bytes = 0
  #users = 1

  /**
   * @param share bytes that the account may hold in total
   * @param change replaces the number `before` by `after` in the counts; throws if that is too much
   */
  constructor(share: number, change: (before: number, after: number) => void) {
    this.#share = share
    this.#change = change
  }

  /**
   * Sets the bytes that the request holds in total. Up to `smallBytes` count as 0, and so does any number after the last release.
   * @throws ApiError 503 when too many bytes are in flight; then the number does not change
   */
  set(bytes: number): void {
    const counted = this.#users === 0 || bytes <= smallBytes ? 0 : bytes
    if (counted === this.#bytes) return
    this.#change(this.#bytes, counted)
    this.#bytes = counted
  }

  /**
   * Sets the bytes of a body that is worked on: multiplied for the copies that the work makes, but at most the account's share.
   * @param values the number of JSON values in the body, as soon as it is known
   * @throws ApiError 503 when too many bytes are in flight
   */
  setWorkedOn(bytes: number, values = 0): void {
    const worked = (bytes <= smallBytes ? 0 : workFactor * bytes) + bytesOfValue * values
    this.set(Math.min(worked, Math.max(bytes, this.#share)))
  }

  /** Keeps the bytes held until the work is over. @returns the result of the work */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#users++
    try {
      return await work
    } finally {
      this.release()
    }
  }

  /** Ends one use; called once for the reply. After the last use no bytes are held. */
  release(): void {
    this.#users--
    if (this.#users === 0) this.set(0)
  }
}
