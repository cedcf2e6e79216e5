import type { Actor } from '../audit/record.ts'
import type { AccountLimits, LimitName, Limits } from '../limit-values.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import type { ModelList } from './model-lists.ts'

/**
 * What a key may be allowed to do. `keys` manages the keys of its own account. `admin` is for the operator, and includes `keys`.
 * Only the command line and the very first start give `admin` to a key; a rotation passes it on to the successor.
 */
export const scopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** The owner of plants, uploaded characters and usage. */
export interface Account {
  readonly id: number
  readonly name: string
  /** Unix seconds. */
  readonly created: number
  /** Unix seconds; null when the account is not suspended. */
  readonly suspended: number | null
  readonly limits: AccountLimits
  /** The models that the keys of the account may use; null for all. */
  readonly models: ModelList | null
}

/** A key without its secret. Times are Unix seconds. */
export interface Key {
  readonly id: string
  readonly account: Account
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly Scope[]
  readonly created: number
  readonly expires: number | null
  /** When the key stops working: in the past for a revoked key, in the future for a rotated key whose overlap still runs. */
  readonly revoked: number | null
  /** About when the key was last used: written at intervals, not with each request. */
  readonly lastUsed: number | null
  readonly limits: Limits
  /** The key's own list, which applies in addition to the account's; null for all. */
  readonly models: ModelList | null
}

/** The properties of a new key. */
export interface KeyRequest {
  /** The account's name. */
  readonly account: string
  readonly scopes: readonly Scope[]
  readonly name?: string
  /** Unix seconds. */
  readonly expires?: number
  /** The secret, if the operator presets it; by default it is random. */
  readonly secret?: string
  readonly limits?: Limits
  /** The models that the key may use; by default all. */
  readonly models?: ModelList | null
}

/** Changes of a key's limits: null removes a limit, and limits without an entry stay. */
export type LimitChanges = Readonly<Partial<Record<LimitName, number | null>>>
/** Changes of an account's limits. `none` means no limit, also when the settings have one. */
export type AccountLimitChanges = Readonly<Partial<Record<LimitName, number | 'none' | null>>>

/** A key and its secret, which is shown once and not stored. */
export interface NewKey {
  readonly key: Key
  readonly secret: string
}

/** The reason of a refusal, if callers treat that reason differently; `refused` for all other reasons. */
export type AccessErrorCode = 'refused' | 'key_ended' | 'last_admin_key'

/** A refusal of a change to accounts or keys. Its message is for the operator. */
export class AccessError extends Error {
  override readonly name = 'AccessError'
  readonly code: AccessErrorCode

  constructor(message: string, code: AccessErrorCode = 'refused', options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/**
 * Accounts and keys. A refusal is an `AccessError`. A change that takes the last working key of the scope `admin` away is refused
 * with the code `last_admin_key`. Each change of an account or a key, except `noteUses`, writes an audit record in its transaction.
 * `by` is the author: by default the command line, and in `createFirstAccount` the service.
 */
export interface AccessStore {
  /** Refuses a name that is taken or malformed. */
  createAccount(name: string, limits?: AccountLimits, models?: ModelList | null, by?: Actor): Promise<Account>
  listAccounts(): Promise<readonly Account[]>
  /** Suspends an account, so that its keys are refused. Refuses an unknown account, and one that is suspended already. */
  suspendAccount(name: string, by?: Actor): Promise<Account>
  /** Refuses an unknown account, and one that is not suspended. */
  resumeAccount(name: string, by?: Actor): Promise<Account>
  /** Refuses an unknown account. @param models the new list of models; by default it stays */
  limitAccount(name: string, changes: AccountLimitChanges, models?: ModelList | null, by?: Actor): Promise<Account>
  /** Creates the first account and its key in one transaction; returns null when there is an account already. */
  createFirstAccount(request: KeyRequest, by?: Actor): Promise<NewKey | null>
  /** Refuses an unknown account, a malformed name, no scopes, and a preset secret that begins like an existing key. */
  createKey(request: KeyRequest, by?: Actor): Promise<NewKey>
  /** All keys, or the keys of one account, oldest first; keys of one second by their ids. Refuses an unknown account. */
  listKeys(account?: string): Promise<readonly Key[]>
  /** At most `limit` keys of an account in the order of `listKeys`, ended keys included. @param after the key before the first one */
  keysAfter(account: number, after: KeyPosition | undefined, limit: number): Promise<readonly Key[]>
  /**
   * Creates a successor of a key. The old key goes on working for `overlapSeconds`; with 0 it ends at once. Finds the key as
   * `revokeKey` does. Refuses an unknown key, several matching keys, and with the code `key_ended` a key that has ended or has a
   * successor.
   */
  rotateKey(prefixOrKey: string, overlapSeconds: number, by?: Actor): Promise<NewKey>
  /**
   * Revokes a key at once. Finds it by the whole key, its id, its prefix, or a beginning of the prefix that no other key has.
   * Refuses an unknown key, several matching keys, and with `key_ended` a revoked key.
   */
  revokeKey(prefixOrKey: string, by?: Actor): Promise<Key>
  /**
   * Changes the limits and the models of a key. Finds the key as `revokeKey` does. Refuses an unknown key, and several matching
   * keys.
   * @param models the new list of models; by default it stays
   */
  limitKey(prefixOrKey: string, changes: LimitChanges, models?: ModelList | null, by?: Actor): Promise<Key>
  /** The cached key with this SHA-256 digest, whatever its state; undefined when it is not in the cache. */
  knownKey(digest: string): Key | undefined
  /** The key with this SHA-256 digest, whatever its state. */
  findKey(digest: string): Promise<Key | undefined>
  /** The key with this id, whatever its state. */
  findKeyById(id: string): Promise<Key | undefined>
  /** The key with this id, read from the database: the `lastUsed` of a cached key may be old. */
  readKey(id: string): Promise<Key | undefined>
  /** Removes and returns the notices that migrations have left for the operator, in order. */
  takeNotices(): Promise<readonly string[]>
  /** Writes when keys were last used: Unix seconds by the keys' ids. */
  noteUses(uses: ReadonlyMap<string, number>): Promise<void>
}

/** The position of a key in the list of its account. */
export type KeyPosition = Pick<Key, 'created' | 'id'>

/** The store that commands on accounts and keys need. */
export interface AccessStores {
  readonly access: AccessStore
}

/** The refusal of an unknown account. */
export function unknownAccount(name: string): AccessError {
  return new AccessError(`There is no account ${JSON.stringify(name)}. See: conservatory accounts list`)
}

/**
 * Finds an account by its name, trimmed.
 * @throws AccessError when no account has this name
 */
export async function findAccount(store: AccessStore, name: string): Promise<Account> {
  const account = (await store.listAccounts()).find((each) => each.name === name.trim())
  if (!account) throw unknownAccount(name)
  return account
}

/** Whether a text is the name of a scope. */
export function isScope(text: string): text is Scope {
  return scopes.some((scope) => scope === text)
}

/** Why a text cannot be a key's name, as the end of a sentence; undefined when it can. */
export function keyNameProblem(name: string): string | undefined {
  return nameProblem(name, keyNameRule)
}

const keyNameRule: NameRule = {
  longest: 255,
  ifBlank: 'give it 1 to 255 characters',
  verb: 'give',
  refused: controlCharacters,
}

/** The longest time that a rotated key may go on working: a year. */
export const maxOverlapSeconds = 31_536_000

/** The latest expiry of a key, in Unix seconds: the end of the year 9999. Later values are probably milliseconds. */
export const maxExpirySeconds = 253_402_300_799
