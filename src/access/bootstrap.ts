import type { Actor } from '../audit/record.ts'
import { type AccessStore, type Key, scopes } from './access.ts'
import { digestKey } from './key.ts'
import { refusalOf } from './refusals.ts'

/** The result of the very first start. */
export interface FirstStart {
  /** The first key, to be shown once; undefined if the operator has preset the key. */
  readonly key: string | undefined
}

/** The facts that a start reports to the operator. */
export interface Bootstrap {
  readonly first?: FirstStart
  /** Warnings: the preset key does not work, or no account has a working key of the scope `admin`. */
  readonly warnings: readonly string[]
  /** Notices of migrations, reported once. */
  readonly notices: readonly string[]
}

/**
 * Creates the account `owner` with one key of all scopes when there is no account yet.
 * @param presetKey the secret of that key, chosen by the operator. Later starts do not use it, and warn if the key does not work
 * @param by the author in the audit records
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
    presetKey === undefined ? undefined : await problemOfPreset(store, presetKey),
    problemOfKeys(await store.listKeys()),
  ]
  return { warnings: warnings.filter((warning) => warning !== undefined), notices: await store.takeNotices() }
}

async function problemOfPreset(store: AccessStore, presetKey: string): Promise<string | undefined> {
  const preset = await store.findKey(digestKey(presetKey))
  const fault = !preset ? 'no key has this value' : refusalOf(preset) && 'the key with this value no longer works'
  if (!fault) return undefined
  return `BOOTSTRAP_KEY is ignored: there is an account already, and ${fault}. Use: conservatory keys create`
}

function problemOfKeys(keys: readonly Key[]): string | undefined {
  const lasting = keys.filter(({ revoked }) => revoked === null)
  if (lasting.some((key) => key.scopes.includes('admin') && !refusalOf(key))) return undefined
  const missing = lasting.length === 0 ? 'key that works' : 'key with the scope admin that works'
  return `There are accounts, but no ${missing}. Make one: conservatory keys create --account NAME --scopes admin`
}
