import { compose } from '../../src/characters/prompt/compose.ts'
import type { Composition, CompositionRequest } from '../../src/characters/prompt/composition.ts'
import { workAtOnce } from '../../src/work.ts'

/** Composes a prompt as a command does: at once. */
export function composedAtOnce(request: CompositionRequest): Composition {
  return workAtOnce().run('messages', compose(request))
}
