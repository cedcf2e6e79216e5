import type { Guard } from '../access/guard.ts'
import type { Limits } from '../limit-values.ts'
import type { Scripts } from '../storage/scripts.ts'
import type { Includes } from './includes.ts'
import type { PageCache } from './page-cache.ts'
import type { PlantStore } from './plant.ts'
import type { Plant } from './schemas.ts'

/** The objects and settings that the routes of plants use. */
export interface PlantsOptions {
  readonly store: PlantStore
  readonly scripts: Scripts
  readonly guard: Guard
  /** The cache of pages. */
  readonly pages: PageCache
  /** The most bytes of a request's body. */
  readonly bodyLimit: number
  /** The limits of accounts without limits of their own. */
  readonly limits: Limits
  /** Answers `include=care,due`. Without it, these names add nothing. */
  readonly includes?: Includes
}

/** The same for routes that reply with plants. */
export interface RouteOptions extends PlantsOptions {
  /** The schema of a plant in replies, with the fields that `includes` adds. */
  readonly plantSchema: typeof Plant
}
