import type { Actor } from '../audit/record.ts'
import type { AccountLimits, LimitName, Limits } from '../limit-values.ts'
import { controlCharacters, type NameRule, nameProblem } from '../text.ts'
import type { ModelList } from './model-lists.ts'

/**
 * What a key may be allowed to do. `keys` manages the keys of its own account; `admin` is the operator's, includes `keys`,
 * and is given by the command line alone.
 */
export const scopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** The owner of plants, uploaded characters and usage. */
export interface Account {
  readonly id: number
  readonly name: string
  /** Unix seconds. */
  readonly created: number
  /** Unix seconds; null for one that is not. */
  readonly suspended: number | null
  readonly limits: AccountLimits
  /** The models that its keys may use; null for all. */
  readonly models: ModelList | null
}

/** All that is known of a key but its secret. Times are Unix seconds. */
export interface Key {
  readonly id: string
  readonly account: Account
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly Scope[]
  readonly created: number
  readonly expires: number | null
  /** When it stops working: past for a revoked key, to come for one that has been rotated and has a successor. */
  readonly revoked: number | null
  /** About when it was last let in: written now and then, not with each request. */
  readonly lastUsed: number | null
  readonly limits: Limits
  /** Its own list, which holds beside the account's; null for all. */
  readonly models: ModelList | null
}

/** What a new key is to be. */
export interface KeyRequest {
  /** The account's name. */
  readonly account: string
  readonly scopes: readonly Scope[]
  readonly name?: string
  /** Unix seconds. */
  readonly expires?: number
  /** The secret itself, when the operator presets it; made at random otherwise. */
  readonly secret?: string
  readonly limits?: Limits
  /** All without it. */
  readonly models?: ModelList | null
}

/** Limits of a key to set; a null takes one away, and what is not named stays. */
export type LimitChanges = Readonly<Partial<Record<LimitName, number | null>>>
/** The same of an account, where `none` says that it has no limit whatever the settings say. */
export type AccountLimitChanges = Readonly<Partial<Record<LimitName, number | 'none' | null>>>

/** A key and its secret, which is shown this once and not kept. */
export interface NewKey {
  readonly key: Key
  readonly secret: string
}

/** Why the access room refuses. Most refusals are told by their sentence alone. */
export type AccessErrorCode = 'refused' | 'key_ended' | 'last_admin_key'

/** A refusal of the access room for whoever holds the command line: one sentence that says what to change. */
export class AccessError extends Error {
  override readonly name = 'AccessError'
  readonly code: AccessErrorCode

  constructor(message: string, code: AccessErrorCode = 'refused', options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/**
 * Keeps accounts and keys. Every method that refuses throws an `AccessError`. What would leave nobody with a working key
 * of the scope `admin` is refused with the code `last_admin_key`. Each change is put on record in its transaction, as `by`'s;
 * without it the command line's.
 */
export interface AccessStore {
  /** Refuses a name that is taken or malformed. */
  createAccount(name: string, limits?: AccountLimits, models?: ModelList | null, by?: Actor): Promise<Account>
  listAccounts(): Promise<readonly Account[]>
  /** From now on its keys are refused. Refuses an unknown account, and one that is suspended already. */
  suspendAccount(name: string, by?: Actor): Promise<Account>
  /** Refuses an unknown account, and one that is not suspended. */
  resumeAccount(name: string, by?: Actor): Promise<Account>
  /** Refuses an unknown account. @param models the models that it may use from now on; as before without it */
  limitAccount(name: string, changes: AccountLimitChanges, models?: ModelList | null, by?: Actor): Promise<Account>
  /** Makes the very first account with its key, both or neither; gives null when there is an account already. */
  createFirstAccount(request: KeyRequest, by?: Actor): Promise<NewKey | null>
  /** Refuses an unknown account and a malformed name. */
  createKey(request: KeyRequest, by?: Actor): Promise<NewKey>
  /** All keys, or those of the account of this name, oldest first; those of one second by their ids. */
  listKeys(account?: string): Promise<readonly Key[]>
  /**
   * Makes a key like this one, which goes on working for so many seconds; with 0 it ends at once.
   * Takes what `revokeKey` takes. Refuses one that is not there, with the code `key_ended` one that does not work any more or has a successor.
   */
  rotateKey(prefixOrKey: string, overlapSeconds: number, by?: Actor): Promise<NewKey>
  /**
   * Revokes at once, by the whole key, its id, its prefix, or a beginning of that which no other key shares.
   * Refuses one that is not there, several, and with `key_ended` a revoked one.
   */
  revokeKey(prefixOrKey: string, by?: Actor): Promise<Key>
  /**
   * Takes what `revokeKey` takes; refuses a key that is not there, and several.
   * @param models the models that it may use from now on; as before without it
   */
  limitKey(prefixOrKey: string, changes: LimitChanges, models?: ModelList | null, by?: Actor): Promise<Key>
  /** The key with this SHA-256 digest, whatever its state, where it is known without asking the database. */
  knownKey(digest: string): Key | undefined
  /** The key with this SHA-256 digest, whatever its state. */
  findKey(digest: string): Promise<Key | undefined>
  /** The key with this id, whatever its state. */
  findKeyById(id: string): Promise<Key | undefined>
  /** The same with when it was last used, which what is remembered of a key does not tell. */
  readKey(id: string): Promise<Key | undefined>
  /** Gives what a migration has left to be told to the operator, in order, this once. */
  takeNotices(): Promise<readonly string[]>
  /** Writes down when keys were last let in: Unix seconds by the keys' ids. */
  noteUses(uses: ReadonlyMap<string, number>): Promise<void>
}

/** The stores as far as commands use them that look for accounts. */
export interface AccessStores {
  readonly access: AccessStore
}

/** The refusal of an account that is not there. */
export function unknownAccount(name: string): AccessError {
  return new AccessError(`There is no account ${JSON.stringify(name)}. See: conservatory accounts list`)
}

/**
 * Finds an account by the name that an operator gave.
 * @throws AccessError when there is none of this name
 */
export async function findAccount(store: AccessStore, name: string): Promise<Account> {
  const account = (await store.listAccounts()).find((each) => each.name === name.trim())
  if (!account) throw unknownAccount(name)
  return account
}

/** Tells whether a text is the name of a scope. */
export function isScope(text: string): text is Scope {
  return scopes.some((scope) => scope === text)
}

/** What keeps a text from being a key's name, as the end of a sentence; undefined for one that can be one. */
export function keyNameProblem(name: string): string | undefined {
  return nameProblem(name, keyNameRule)
}

const keyNameRule: NameRule = {
  longest: 255,
  ifBlank: 'give it 1 to 255 characters',
  verb: 'give',
  refused: controlCharacters,
}

/** The longest that a rotated key may go on working, seconds: a year. */
export const longestOverlap = 31_536_000

/** The latest moment at which a key can expire, Unix seconds: the end of the year 9999, so that milliseconds are told. */
export const latestExpiry = 253_402_300_799
