import type { Key } from './access.ts'

/** How much of a limit per minute is left. */
export interface Allowance {
  readonly limit: number
  /** Whole requests or tokens that are left now. */
  readonly remaining: number
  /** Milliseconds until the whole limit is available again. */
  readonly resetMs: number
}

/** Reply headers by their names. */
export type Headers = Readonly<Record<string, string>>

/** Makes the reply headers of a group of routes from the requests that are left. */
export type RequestHeaders = (allowance: Allowance) => Headers

/** Counts the requests of each key: the part of the limits that the guard needs. */
export interface RequestCounter {
  /**
   * Counts one request of a key.
   * @param writeHeaders makes the headers of a refusal; by default OpenAI's headers
   * @returns how many requests are left; undefined if nothing limits the requests; a promise only if other replicas count too
   * @throws ApiError 429; 503 when other replicas count too and the database does not answer
   */
  admit(key: Key, writeHeaders?: RequestHeaders): Allowance | Promise<Allowance> | undefined
}
