import { type ApiError, overloaded } from '../errors.ts'

/** A list of up to so many plants is sent whole; a longer one is streamed, whether a limit was sent or not. */
export const maxWholeList = 1000

/** How many long lists are open at once, of all accounts and of one. */
const maxOpenLists = 32
const maxOpenListsOfAccount = 8

/** Counts the long lists that are being read: each takes memory and time for as long as its reader takes. */
export class OpenLists {
  readonly #open = new Map<number, number>()
  #count = 0

  /**
   * Lets a list of an account begin.
   * @returns what to call when it is over
   * @throws ApiError 503 where so many are open already
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
