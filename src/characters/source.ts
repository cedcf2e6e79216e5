import type { CardError } from './card-error.ts'

/** How a card came: the bytes decide, never a file's name or a declared type. */
export type Container = 'json' | 'png' | 'charx'

/** A card's source: the bytes as they came, and the JSON document in them exactly as parsed. */
export interface CardSource {
  readonly container: Container
  readonly bytes: Buffer
  /** The card object; own properties only are to be read, none is to be written. */
  readonly document: Readonly<Record<string, unknown>>
  /** What was taken in spite of a fault, one sentence each. */
  readonly warnings: readonly string[]
}
export type { CardError }
