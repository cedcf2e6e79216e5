import { type ApiError, overloaded } from '../errors.ts'

/** A body or a reply of up to this size is not counted and never refused. Most are smaller, and cost only one comparison. */
export const smallBytes = 64 * 1024

/**
 * While a body is worked on, its bytes are multiplied by this factor, because the work makes copies. A card is unpacked, and
 * becomes a text, values, and pieces for the disk. A chat becomes a text, values, texts that are searched for lore, a prompt, and
 * the receipt of the prompt.
 */
const workFactor = 5
/** Bytes that a JSON value counts for in addition, because short texts and small objects take more memory than their JSON. */
const bytesOfValue = 150

/** All refusals share this error, because making an error with its stack costs as much as the rest of a refusal. */
const refusal = overloaded('The bodies of requests and replies have no room now. Try again in a second.')

/**
 * Counts the bytes that requests hold in memory: a body from its first byte to the end of the reply, and a reply until the client
 * has read it. All bytes together never exceed the bound, and the bytes of one account never exceed half of the bound. The last
 * quarter of the bound is only for a request whose account held nothing before (docs/decisions/0023-bytes-in-flight.md).
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

  /** Opens a count for the bytes of one request. @returns the count, 0 at first, to be released when the request is over */
  open(account: number): HeldBytes {
    let isFirst = false
    const holds = () => this.#accounts.get(account) ?? 0
    const share = Math.floor(this.#maxBytes / 2)
    const change = (before: number, after: number) => {
      const more = after - before
      if (more > 0) {
        if (before === 0) isFirst = holds() === 0
        const bound = isFirst ? this.#maxBytes : Math.floor(this.#maxBytes * 0.75)
        if (this.#bytes + more > bound || holds() + more > share) return false
      }
      this.#bytes += more
      const left = holds() + more
      if (left > 0) this.#accounts.set(account, left)
      else this.#accounts.delete(account)
      return true
    }
    return new HeldBytes({ share, change, refuse: this.#refuse })
  }

  readonly #refuse = (): ApiError => {
    this.#refusals++
    return refusal
  }

  /**
   * Counts the bytes of an account's card while the card is read. The bytes are multiplied as for a body that is worked on.
   * @throws ApiError 503 when too many bytes are in flight
   */
  readonly during = async <T>(account: number, bytes: number, work: CountedWork<T>): Promise<T> => {
    const held = this.open(account)
    held.setWorkedOn(bytes)
    try {
      return await work((unpacked) => held.setWorkedOn(Math.max(bytes, unpacked)))
    } finally {
      held.release()
    }
  }
}

/**
 * Reads a card whose bytes count as in flight.
 * @param onMemory to be called before memory for unpacked content is allocated. It throws ApiError 503 if there is no room for
 *   the memory
 */
export type CountedWork<T> = (onMemory: (unpackedBytes: number) => void) => Promise<T>

/** The counts of the process and of an account, as one request sees them. */
interface Counts {
  /** Bytes that the account may hold in total. */
  readonly share: number
  /** Replaces the number `before` by `after`. @returns false, with nothing changed, if that is too much */
  readonly change: (before: number, after: number) => boolean
  /** Counts a refusal. @returns its error */
  readonly refuse: () => ApiError
}

/** The bytes that one request holds, and the number of their users: the reply, and work that goes on without the client. */
export class HeldBytes {
  readonly #counts: Counts
  #bytes = 0
  #users = 1

  constructor(counts: Counts) {
    this.#counts = counts
  }

  /**
   * Sets the bytes that the request holds in total. Numbers up to `smallBytes` count as 0. After the last release, all
   * numbers count as 0.
   * @throws ApiError 503, with the number unchanged, when too many bytes are in flight
   */
  set(bytes: number): void {
    if (!this.trySet(bytes)) throw this.#counts.refuse()
  }

  /** Like `set`, for work that can wait. @returns false, with the number unchanged, when too many bytes are in flight */
  trySet(bytes: number): boolean {
    const counted = this.#users === 0 || bytes <= smallBytes ? 0 : bytes
    if (counted === this.#bytes) return true
    if (!this.#counts.change(this.#bytes, counted)) return false
    this.#bytes = counted
    return true
  }

  /**
   * Sets the bytes of a body that is worked on. They are multiplied for the copies that the work makes, up to the share.
   * @param values the number of JSON values in the body, as soon as it is known
   * @throws ApiError 503 when too many bytes are in flight
   */
  setWorkedOn(bytes: number, values = 0): void {
    const worked = (bytes <= smallBytes ? 0 : workFactor * bytes) + bytesOfValue * values
    this.#setCapped(worked, bytes)
  }

  /**
   * Sets the bytes of an answer that is in memory several times. Each copy counts, but together at most as the account's share.
   * @throws ApiError 503 when too many bytes are in flight
   */
  setCopies(bytes: number, copies: number): void {
    this.#setCapped(copies * bytes, bytes)
  }

  /**
   * Sets the bytes of other memory that the request's work takes, but at most the account's share.
   * @throws ApiError 503 when too many bytes are in flight
   */
  setMemory(bytes: number): void {
    this.#setCapped(bytes, 0)
  }

  /** Sets a multiple of the real bytes, but at most the account's share, because a larger number would never fit. */
  #setCapped(multiple: number, bytes: number): void {
    this.set(Math.min(multiple, Math.max(bytes, this.#counts.share)))
  }

  /** Holds the bytes until the work is over. @returns the result of the work */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#users++
    try {
      return await work
    } finally {
      this.release()
    }
  }

  /** Ends one use of the bytes. The reply is one use. After the last use no bytes are held. */
  release(): void {
    this.#users--
    if (this.#users === 0) this.set(0)
  }
}
