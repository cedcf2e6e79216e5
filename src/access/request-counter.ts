import type { Key } from './access.ts'

/** How much of a limit per minute is left. */
export interface Allowance {
  readonly limit: number
  /** Whole ones that may be taken now. */
  readonly remaining: number
  /** Milliseconds until all of them may be. */
  readonly resetMs: number
}

/** Reply headers by their names. */
export type Headers = Readonly<Record<string, string>>

/** The way in which a group of routes tells how many requests are left. */
export type RequestHeaders = (allowance: Allowance) => Headers

/** Counts the requests of each key. The guard needs no more of the limits than this. */
export interface RequestCounter {
  /**
   * Counts one request of a key.
   * @param tell writes the headers of a refusal; as OpenAI does without it
   * @returns how many are left; undefined where nothing limits them, and a promise only where others count as well
   * @throws ApiError 429, and 503 where others count as well and that cannot be read
   */
  admit(key: Key, tell?: RequestHeaders): Allowance | Promise<Allowance> | undefined
}
