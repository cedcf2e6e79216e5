import { type ApiError, overloaded } from '../errors.ts'

/** The most plants of a list that is sent as one text. A longer list is streamed, whether or not the request has a limit. */
export const maxWholeList = 1000

/** The most long lists that may be open at the same time: of all accounts, and of one account. */
const maxOpenLists = 32
const maxOpenListsOfAccount = 8

/** Counts the long lists that are open: each list takes memory and time until its reader is done. */
export class OpenLists {
  readonly #open = new Map<number, number>()
  #count = 0

  /**
   * Opens a list of an account.
   * @returns a function to call when the list is over
   * @throws ApiError 503 when too many lists are open
   */
  enter(account: number): () => void {
    const own = this.#open.get(account) ?? 0
    if (this.#count >= maxOpenLists || own >= maxOpenListsOfAccount) throw tooMany()
    this.#open.set(account, own + 1)
    this.#count++
    return () => this.#leave(account)
  }

  #leave(account: number): void {
    const own = this.#open.get(account) ?? 0
    if (own > 1) this.#open.set(account, own - 1)
    else this.#open.delete(account)
    this.#count--
  }
}

function tooMany(): ApiError {
  const message = `Too many long lists are being read. Ask for pages with a limit of at most ${maxWholeList}, or try again in a second.`
  return overloaded(message)
}
