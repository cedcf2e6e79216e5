import fc from 'fast-check'

/** How many accounts call, by numbers from 0 up; whoever may be named may also be the one after them. */
export const people = 4
export const who = fc.nat({ max: people - 1 })
export const id = fc.integer({ min: -2, max: 8 })
export const tag = fc.constantFrom('x', 'y', 'z', undefined)
export const limit = fc.constantFrom(1, 2, 3, 50)
const key = fc.constantFrom(undefined, undefined, 'a', 'b')
/** Whether the reply is to have the id. */
const withId = fc.boolean()

/** What accounts call, with so few ids, tags and keys that calls often meet. */
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

/** A plant in the model: whose it is as a number from 0 up, and the rest. */
export interface ModelledPlant {
  readonly owner: number
  readonly id: number
  readonly name: string
  readonly tag: string | undefined
}

/**
 * What the rules say, written down once more in the plainest way: one heap of plants, one set of grants, and every
 * question answered by looking at all of them. The service must answer the same, whatever is called in whatever order.
 */
export class PlantsModel {
  plants: ModelledPlant[] = []
  /** "owner grantee tag", without a tag for all plants. */
  readonly grants = new Set<string>()
  /** What each account's idempotency keys were used for. */
  readonly keyed = new Map<string, { readonly asked: string; readonly plant: ModelledPlant }>()

  /** The account's own plant with this id. */
  own(owner: number, id: number): ModelledPlant | undefined {
    return this.plants.find((plant) => plant.owner === owner && plant.id === id)
  }

  /** Removes it; tells whether it was there. */
  remove(owner: number, id: number): boolean {
    const before = this.plants.length
    this.plants = this.plants.filter((plant) => plant.owner !== owner || plant.id !== id)
    return this.plants.length < before
  }

  /** The id that a plant gets which is sent without one. */
  nextId(owner: number): number {
    return Math.max(0, ...this.plants.filter((plant) => plant.owner === owner).map(({ id }) => id)) + 1
  }

  /** Takes back one grant, or all without a tag; tells whether there was any. */
  unshare(owner: number, grantee: number, tag: string | undefined): boolean {
    const taken = [...this.grants].filter((grant) =>
      tag === undefined ? grant.startsWith(`${owner} ${grantee} `) : grant === `${owner} ${grantee} ${tag}`,
    )
    for (const grant of taken) this.grants.delete(grant)
    return taken.length > 0
  }

  /** All that an account sees, in order: with this tag, after this place. */
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
