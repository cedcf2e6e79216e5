import { overloaded } from '../errors.ts'

/** Bytes of a body or a reply up to which it is neither counted nor refused: most requests are, and pay one comparison. */
export const smallBytes = 64 * 1024

/**
 * How often bytes count while they are worked on. A card's JSON is unpacked, becomes a text, and values, and pieces on their
 * way to the disk; a chat's becomes a text, and values, texts in which lore is looked for, a prompt, and the
 * receipt of it.
 */
const workFactor = 5

/** Made once: with its stack, making one costs as much as the rest of a refusal. */
const refusal = overloaded('More bytes are on their way in and out than there is room for. Try again in a second.')

/**
 * Counts the bytes that requests hold in memory: bodies, from their first byte until the reply to them is over, and replies
 * until they are read. All together they are never more than the bound, those of one account never more than half of
 * it, and the last quarter is only for a request of an account that held nothing before
 * (docs/decisions/0023-bytes-in-flight.md).
 */
export class BytesInFlight {
  readonly #maxBytes: number
  readonly #accounts = new Map<number, number>()
  #bytes = 0
  #refusals = 0

  /** @param most bytes */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** How often more was wanted than there was room for. */
  get refusals(): number {
    return this.#refusals
  }

  /** Lets a request of an account hold bytes, none at first. @returns what must be released when it is over */
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
   * Holds the bytes of a card of an account, with what is made of them, while it is read.
   * @throws ApiError 503 where there is no room for them
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

/** The bytes that one request holds, and its users: its reply, and work that goes on although its reader has left. */
export class HeldBytes {
  readonly #share: number
  readonly #change: (before: number, after: number) => void
  #bytes = 0
  #users = 1

  /**
   * @param share bytes that the account may hold in all
   * @param change counts the one number in place of the other; throws where that is too much
   */
  constructor(share: number, change: (before: number, after: number) => void) {
    this.#share = share
    this.#change = change
  }

  /**
   * From now on it holds so many bytes in all. Up to `smallBytes` count as none; what is over holds none any more.
   * @throws ApiError 503 where there is no room for them; then it holds what it held
   */
  set(bytes: number): void {
    const counted = this.#users === 0 || bytes <= smallBytes ? 0 : bytes
    if (counted === this.#bytes) return
    this.#change(this.#bytes, counted)
    this.#bytes = counted
  }

  /**
   * Counts bytes with what is made of them, as far as the account's share goes, for as long as they are worked on.
   * @throws ApiError 503 where there is no room for that
   */
  setWorkedOn(bytes: number): void {
    this.set(bytes <= smallBytes ? bytes : Math.min(workFactor * bytes, Math.max(bytes, this.#share)))
  }

  /** Keeps what is held until some work is over too. @returns what the work gives */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#users++
    try {
      return await work
    } finally {
      this.release()
    }
  }

  /** Ends one use, to be called once for the reply; after the last one nothing is held. */
  release(): void {
    this.#users--
    if (this.#users === 0) this.set(0)
  }
}
