import type { Key } from '../access/access.ts'
import { limitsInForce } from '../access/limits-in-force.ts'
import { hasEnded } from '../access/refusals.ts'
import { type Limits, limitNames } from '../limit-values.ts'

/**
 * Warns the operator of limits without effect: a sentence for each limit of a valid key that is above the limit of its account.
 * @param settings the default limits of accounts, from the setting `LIMITS`
 */
export function limitWarnings(keys: readonly Key[], settings: Limits): readonly string[] {
  return keys
    .filter((key) => !hasEnded(key))
    .flatMap((key) =>
      limitNames.flatMap((name) => {
        const { own, ofAccount } = limitsInForce(key, settings, name)
        if (own === undefined || ofAccount === undefined || own <= ofAccount) return []
        const { prefix, account } = key
        return `The key ${prefix} has the limit ${name}=${own}, above the ${ofAccount} of its account ${JSON.stringify(account.name)}: both hold. Lower it: conservatory keys limit ${prefix} --limit ${name}=${ofAccount}`
      }),
    )
}
