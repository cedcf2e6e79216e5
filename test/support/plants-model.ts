import fc from 'fast-check'

/** The number of accounts, which are numbered from 0. Some calls use the next number, which has no account. */
export const people = 4
export const who = fc.nat({ max: people - 1 })
export const id = fc.integer({ min: -2, max: 8 })
export const tag = fc.constantFrom('x', 'y', 'z', undefined)
export const limit = fc.constantFrom(1, 2, 3, 50)
const key = fc.constantFrom(undefined, undefined, 'a', 'b')
/** Whether the reply includes the id. */
const withId = fc.boolean()

/** Random calls of accounts, with so few ids, tags and keys that calls often collide. */
export const create = fc.record({
  kind: fc.constant('create'),
  who,
  id: fc.option(id, { nil: undefined }),
  tag,
  key,
  withId,
})
export const remove = fc.record({ kind: fc.constant('remove'), who, id })
export const find = fc.record({ kind: fc.constant('find'), who, id, withId })

/** A plant in the model, with the number of its account. */
export interface ModelledPlant {
  readonly owner: number
  readonly id: number
  readonly name: string
  readonly tag: string | undefined
}

/**
 * The rules for plants and grants in their simplest form: one list of plants, one set of grants, and every query is a full scan.
 * The service must give the same answers to any calls in any order.
 */
export class PlantsModel {
  plants: ModelledPlant[] = []
  /** Each grant as "owner grantee tag". A grant of all plants has no tag. */
  readonly grants = new Set<string>()
  /** The first request of each idempotency key, by account. */
  readonly keyed = new Map<string, { readonly asked: string; readonly plant: ModelledPlant }>()

  /** The account's own plant with this id. */
  own(owner: number, id: number): ModelledPlant | undefined {
    return this.plants.find((plant) => plant.owner === owner && plant.id === id)
  }

  /** Removes the account's own plant with this id. @returns whether it existed */
  remove(owner: number, id: number): boolean {
    const before = this.plants.length
    this.plants = this.plants.filter((plant) => plant.owner !== owner || plant.id !== id)
    return this.plants.length < before
  }

  /** The id of a plant that is added without an id. */
  nextId(owner: number): number {
    return Math.max(0, ...this.plants.filter((plant) => plant.owner === owner).map(({ id }) => id)) + 1
  }

  /** Whether an account sees a part of another account's plants, by tag. */
  seesByTag(viewer: number): boolean {
    return [...this.grants].some((grant) => {
      const [owner = '', grantee = '', tag] = grant.split(' ')
      return Number(grantee) === viewer && tag !== '' && !this.grants.has(`${owner} ${grantee} `)
    })
  }

  /** Revokes the grant of a tag; without a tag, all grants from the owner to the grantee. @returns whether a grant existed */
  unshare(owner: number, grantee: number, tag: string | undefined): boolean {
    const taken = [...this.grants].filter((grant) =>
      tag === undefined ? grant.startsWith(`${owner} ${grantee} `) : grant === `${owner} ${grantee} ${tag}`,
    )
    for (const grant of taken) this.grants.delete(grant)
    return taken.length > 0
  }

  /** The plants that an account sees, in the order of the list; optionally only plants with a tag, or after a position. */
  visible(
    viewer: number,
    tag?: string,
    after?: { readonly owner: number; readonly id: number },
  ): readonly ModelledPlant[] {
    const place = ({ owner, id }: { readonly owner: number; readonly id: number }) => [
      owner === viewer ? -1 : owner,
      id,
    ]
    const compare = ([a = 0, b = 0]: readonly number[], [c = 0, d = 0]: readonly number[]) => a - c || b - d
    return this.plants
      .filter(
        (plant) =>
          plant.owner === viewer ||
          this.grants.has(`${plant.owner} ${viewer} `) ||
          (plant.tag !== undefined && this.grants.has(`${plant.owner} ${viewer} ${plant.tag}`)),
      )
      .filter((plant) => tag === undefined || plant.tag === tag)
      .filter((plant) => after === undefined || compare(place(plant), place(after)) > 0)
      .toSorted((a, b) => compare(place(a), place(b)))
  }
}
