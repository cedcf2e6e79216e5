import type { Actor } from '../audit/record.ts'
import { type AccessStore, type Key, scopes } from './access.ts'
import { digestKey } from './key.ts'
import { refusalOf } from './refusals.ts'

/** That this was the very first start. */
export interface FirstStart {
  /** The first key, to be shown this once; undefined when the operator has chosen it. */
  readonly key: string | undefined
}

/** What a start has to tell the operator. */
export interface Bootstrap {
  readonly first?: FirstStart
  /** What looks wrong about a preset key, or about all keys. */
  readonly warnings: readonly string[]
  /** What a migration has changed, told this once. */
  readonly notices: readonly string[]
}

/**
 * Makes the account `owner` with one key of all scopes when there is no account yet.
 * @param presetKey the operator's own choice of that key; warned about, and ignored, when no such key exists later
 * @param by the service, as the records of what is made name it
 */
export async function bootstrapAccess(
  store: AccessStore,
  presetKey: string | undefined,
  by?: Actor,
): Promise<Bootstrap> {
  const preset = presetKey === undefined ? {} : { secret: presetKey }
  const first = await store.createFirstAccount({ account: 'owner', scopes, name: 'first key', ...preset }, by)
  if (first) return { first: { key: presetKey === undefined ? first.secret : undefined }, warnings: [], notices: [] }
  const warnings = [
    presetKey === undefined ? undefined : await faultOfPreset(store, presetKey),
    faultOfKeys(await store.listKeys()),
  ]
  return { warnings: warnings.filter((warning) => warning !== undefined), notices: await store.takeNotices() }
}

async function faultOfPreset(store: AccessStore, presetKey: string): Promise<string | undefined> {
  const preset = await store.findKey(digestKey(presetKey))
  const fault = !preset ? 'no key like it' : refusalOf(preset) && 'that key opens nothing any more'
  if (!fault) return undefined
  return `BOOTSTRAP_KEY is ignored: there is an account already, and ${fault}. Use: conservatory keys create`
}

function faultOfKeys(keys: readonly Key[]): string | undefined {
  const lasting = keys.filter(({ revoked }) => revoked === null)
  if (lasting.some((key) => key.scopes.includes('admin') && !refusalOf(key))) return undefined
  const missing = lasting.length === 0 ? 'key that works' : 'key with the scope admin that works'
  return `There are accounts, but no ${missing}. Make one: conservatory keys create --account NAME --scopes admin`
}
