import { type AccessStore, scopes } from './access.ts'
import { digestKey } from './key.ts'
import { refusalOf } from './refusals.ts'

/** That this was the very first start. */
export interface FirstStart {
  /** The first key, to be shown this once; undefined when the operator has chosen it. */
  readonly key: string | undefined
}

/** What the first start has to tell the operator, or what looks wrong about a preset key. */
export interface Bootstrap {
  readonly first?: FirstStart
  readonly warning?: string
}

/**
 * Makes the account `owner` with one key of all scopes when there is no account yet.
 * @param presetKey the operator's own choice of that key; warned about, and ignored, when no such key exists later
 */
export async function bootstrapAccess(store: AccessStore, presetKey: string | undefined): Promise<Bootstrap> {
  const first = await store.createFirstAccount({
    account: 'owner',
    scopes,
    name: 'first key',
    ...(presetKey === undefined ? {} : { secret: presetKey }),
  })
  if (first) return { first: { key: presetKey === undefined ? first.secret : undefined } }
  if (presetKey !== undefined) {
    const preset = await store.findKey(digestKey(presetKey))
    const fault = !preset ? 'no key like it' : refusalOf(preset) && 'that key opens nothing any more'
    if (fault) {
      return {
        warning: `BOOTSTRAP_KEY is ignored: there is an account already, and ${fault}. Use: conservatory keys create`,
      }
    }
  }
  const hasKey = (await store.listKeys()).some(({ revoked }) => revoked === null)
  return hasKey ? {} : { warning: 'There are accounts, but no key that works. Make one: conservatory keys create' }
}
