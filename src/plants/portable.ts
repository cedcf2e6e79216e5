import { AccessError } from '../access/access.ts'

/** A plant on its way out of an account, or into one. */
export interface PortablePlant {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

/** A plant as the database keeps it, without its account. */
export interface PortableRow {
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

/** Takes all plants of an account, of one moment and in the order of their ids. What it throws is thrown to the caller. */
export interface ExportSink {
  /** Comes first, with how many there are. */
  begin(count: number): void
  /** Some of them, as whole lines of an account's file in UTF-8; as often as it takes. */
  add(lines: Buffer): void
  /** All have come. */
  end(): void
}

/** The plant that a row tells of. */
export function toPortable({ id, name, tag }: PortableRow): PortablePlant {
  return tag === null ? { id, name } : { id, name, tag }
}

/** The row of a plant. */
export function toRow({ id, name, tag }: PortablePlant): PortableRow {
  return { id, name, tag: tag ?? null }
}

/** The refusal to import a plant whose id another one has: which one it is, and nothing of its batch is written. */
export class TakenId extends AccessError {
  readonly id: number

  constructor(id: number) {
    super(`There is a plant with the id ${id} already.`)
    this.id = id
  }
}
