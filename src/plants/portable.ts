import { AccessError } from '../access/access.ts'

/** A plant of an export or an import. */
export interface PortablePlant {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

/** A plant's row without its account. */
export interface PortableRow {
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

/** Takes all plants of an account, from one snapshot and in the order of their ids. An error of a method ends the export. */
export interface ExportSink {
  /** Called first, with the number of plants. */
  begin(count: number): void
  /** Takes some plants as whole UTF-8 lines of an account's file; called any number of times. */
  add(lines: Buffer): void
  /** Called after the last plant. */
  end(): void
}

/** The plant of a row. */
export function toPortable({ id, name, tag }: PortableRow): PortablePlant {
  return tag === null ? { id, name } : { id, name, tag }
}

/** The row of a plant. */
export function toRow({ id, name, tag }: PortablePlant): PortableRow {
  return { id, name, tag: tag ?? null }
}

/** The refusal to import a plant whose id another plant has. Nothing of the plant's batch is written. */
export class TakenId extends AccessError {
  readonly id: number

  constructor(id: number) {
    super(`There is a plant with the id ${id} already.`)
    this.id = id
  }
}
