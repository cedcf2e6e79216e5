import { compose, type Means } from '../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import { maxUnits, withFuel } from '../../src/work/fuel.ts'

/** A request whose seed of random draws and time need not be said. */
export type AnyComposition = Omit<CompositionRequest, 'randomSeed' | 'now'> & Partial<CompositionRequest>

/** Composes a prompt with its parts, within the budget of a request. */
export function composedAtOnce(request: AnyComposition, means: Means = {}): Composition {
  return withFuel(maxUnits, () => compose(fullRequest(request), means))
}

/** A request with a seed, a time and its parts. */
export function fullRequest(request: AnyComposition): CompositionRequest {
  return { randomSeed: 'seed', now: new Date(), wantsParts: true, ...request }
}
