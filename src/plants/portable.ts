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
export interface PlantTaker {
  /** Comes first, with how many there are; once more where the database had to begin anew. */
  begin(count: number): void
  /** Some of them, as often as it takes. */
  add(plants: Iterable<PortablePlant>): void
  /** All have come. */
  end(): void
}

/** The plant that a row tells of. */
export function toPortable({ id, name, tag }: PortableRow): PortablePlant {
  return tag === null ? { id, name } : { id, name, tag }
}

/** The refusal to import a plant whose id is taken. @param place where it came from, as the sentence's begin */
export function takenId(place: string, id: number | undefined): AccessError {
  return new AccessError(`${place}: there is a plant with the id ${id} already. Nothing was imported.`)
}
