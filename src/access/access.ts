import type { Actor } from '../audit/record.ts'
import type { AccountLimits, LimitName, Limits } from '../limit-values.ts'
import type { Prunable } from '../storage/prune.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import type { ModelList } from './model-lists.ts'

/**
 * The scopes that a key may have. `keys` manages the keys of the key's account. `admin` is for the operator, and includes `keys`.
 * Only the command line and the very first start give `admin` to a key. A rotation passes `admin` on to the successor.
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
  /** The models that the keys of the account may use; null for all models. */
  readonly models: ModelList | null
  /** The time zone of the account's days, by its name in the IANA database; null for UTC. */
  readonly timeZone: string | null
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
  /** When the key stops working: in the past for a revoked key, in the future for a rotated key that still works. */
  readonly revoked: number | null
  /** The approximate time of the last use: it is written at intervals, not with each request. */
  readonly lastUsed: number | null
  /** The limits that hold for this key: of each limit of the key and of its maker, the lower value. */
  readonly limits: Limits
  /** The limits that were set for this key itself. */
  readonly ownLimits: Limits
  /** The id under which requests and tokens of the key are counted: a rotated key and its successor share it. */
  readonly subject: string
  /** The limited key that made this key over HTTP; null without one. */
  readonly maker: Maker | null
  /** The key's list of models, which applies in addition to the account's list; null for all models. */
  readonly models: ModelList | null
}

/** The limits of the key that made another key. Both keys count in these limits, so that a key gains nothing by making keys. */
export interface Maker {
  /** The subject of the maker, which outlives the maker. */
  readonly subject: string
  /** The current limits of the maker; a change of its limits changes them here. */
  readonly limits: Limits
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
  /** The id of the key that makes the key; without it, the operator makes the key. */
  readonly madeBy?: string
}

/**
 * Names a key: by its id within an account, as requests do, or by a text of the operator. The text is the secret, the id, the
 * prefix, or a beginning of the prefix that no other key has.
 */
export type KeyName = string | { readonly id: string; readonly account: number }

/** Changes of a key's limits: null removes a limit, and limits without an entry stay. */
export type LimitChanges = Readonly<Partial<Record<LimitName, number | null>>>
/** Changes of an account's limits: like `LimitChanges`, and `none` means no limit, even if the setting `LIMITS` has a limit. */
export type AccountLimitChanges = Readonly<Partial<Record<LimitName, number | 'none' | null>>>

/** A key and its secret, which is shown once and not stored. */
export interface NewKey {
  readonly key: Key
  readonly secret: string
}

/** The reason of a refusal. `refused` stands for all reasons that callers do not treat differently. */
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
 * Accounts and keys. A refusal is an `AccessError`. A change that ends the last working key with the scope `admin` is refused
 * with the code `last_admin_key`. Each change of an account or a key, except `noteUses`, writes an audit record in the same
 * transaction. `by` is the author of a change: by default the command line, and in `createFirstAccount` the service. `prune` removes
 * keys that have ended before the given time, and writes no audit record.
 */
export interface AccessStore extends Prunable {
  /** Refuses a name that is taken or malformed. */
  createAccount(name: string, limits?: AccountLimits, models?: ModelList | null, by?: Actor): Promise<Account>
  listAccounts(): Promise<readonly Account[]>
  /** Suspends an account, so that its keys are refused. Refuses an unknown account, and an account that is already suspended. */
  suspendAccount(name: string, by?: Actor): Promise<Account>
  /** Ends a suspension. Refuses an unknown account, and an account that is not suspended. */
  resumeAccount(name: string, by?: Actor): Promise<Account>
  /** Changes the limits and the models of an account. Refuses an unknown account. @param models by default the list stays */
  limitAccount(name: string, changes: AccountLimitChanges, models?: ModelList | null, by?: Actor): Promise<Account>
  /** Sets the time zone of an account. Refuses an unknown account. The days of plants must be worked out again afterwards. */
  setTimeZone(name: string, timeZone: string | null, by?: Actor): Promise<Account>
  /** Creates the first account and its key in one transaction; returns null when there is an account already. */
  createFirstAccount(request: KeyRequest, by?: Actor): Promise<NewKey | null>
  /**
   * Refuses an unknown account, a malformed name, no scopes, and a preset secret with the prefix of an existing key.
   * @param limit the most working keys that the account may have; by default any number
   * @throws ApiError 429 when the limit is reached
   */
  createKey(request: KeyRequest, by?: Actor, limit?: number): Promise<NewKey>
  /** All keys, or the keys of one account, oldest first, and keys of the same second by id. Refuses an unknown account. */
  listKeys(account?: string): Promise<readonly Key[]>
  /**
   * At most `limit` keys of an account after the key `after`, in the order of `listKeys`. Keys that have ended are included, but
   * their models may be missing.
   */
  keysAfter(account: number, after: KeyPosition | undefined, limit: number): Promise<readonly Key[]>
  /**
   * Creates a successor of a key. The old key works for `overlapSeconds` more; with 0 it ends immediately. Both keys share their
   * subject of counting. Refuses an unknown key, and several matching keys. With the code `key_ended`, refuses a key that has
   * ended or has a successor.
   * @param limit as for `createKey`; without an overlap the number of working keys stays, and the limit is not checked
   * @throws ApiError 429 when the limit is reached
   */
  rotateKey(name: KeyName, overlapSeconds: number, by?: Actor, limit?: number): Promise<NewKey>
  /**
   * Revokes a key immediately. Refuses an unknown key, and several matching keys. With the code `key_ended`, refuses a revoked
   * key.
   */
  revokeKey(name: KeyName, by?: Actor): Promise<Key>
  /**
   * Changes the limits and the models of a key. Refuses an unknown key, and several matching keys.
   * @param models the new list of models; by default the list stays
   */
  limitKey(name: KeyName, changes: LimitChanges, models?: ModelList | null, by?: Actor): Promise<Key>
  /** How many working keys an account has; a count may stop at `enough`. */
  countKeys(account: number, enough?: number): Promise<number>
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
  /** Writes the times of last use. @param uses Unix seconds by the ids of the keys */
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

/** Why a text cannot be a key's name, as the end of a sentence; undefined for a valid name. */
export function keyNameProblem(name: string): string | undefined {
  return nameProblem(name, keyNameRule)
}

const keyNameRule: NameRule = {
  longest: 255,
  ifBlank: 'give it 1 to 255 characters',
  verb: 'give',
  refused: controlCharacters,
}

/** The longest overlap of a rotated key with its successor: a year. */
export const maxOverlapSeconds = 31_536_000

/** The latest expiry of a key, in Unix seconds: the end of the year 9999. Later values are probably milliseconds. */
export const maxExpirySeconds = 253_402_300_799
