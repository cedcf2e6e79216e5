import type { Limits } from '../limits/limits.ts'

/** What a key may be allowed to do. */
export const scopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'admin'] as const
export type Scope = (typeof scopes)[number]

/** The owner of plants, uploaded characters and usage. */
export interface Account {
  readonly id: number
  readonly name: string
  /** Unix seconds. */
  readonly created: number
  /** Unix seconds; null for one that is not. */
  readonly suspended: number | null
  readonly limits: Limits
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
  readonly revoked: number | null
  /** About when it was last let in: written now and then, not with each request. */
  readonly lastUsed: number | null
  readonly limits: Limits
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
}

/** A refusal of the access room for whoever holds the command line: one sentence that says what to change. */
export class AccessError extends Error {
  override readonly name = 'AccessError'
}

/** Keeps accounts and keys. Every method that refuses throws an `AccessError`. */
export interface AccessStore {
  /** Refuses a name that is taken or malformed. */
  createAccount(name: string): Promise<Account>
  listAccounts(): Promise<readonly Account[]>
  /** Makes the very first account with its key, both or neither; gives null when there is an account already. */
  createFirstAccount(request: KeyRequest): Promise<{ readonly key: Key; readonly secret: string } | null>
  /** Gives the new key and its secret, which is shown this once and not kept. Refuses an unknown account and a malformed name. */
  createKey(request: KeyRequest): Promise<{ readonly key: Key; readonly secret: string }>
  /** All keys, or those of the account of this name, oldest first. */
  listKeys(account?: string): Promise<readonly Key[]>
  /** Revokes by prefix or by the whole key, at once; refuses one that is not there. */
  revokeKey(prefixOrKey: string): Promise<Key>
  /** The key with this SHA-256 digest, whatever its state. */
  findKey(digest: string): Promise<Key | undefined>
}

/** Tells whether a text is the name of a scope. */
export function isScope(text: string): text is Scope {
  return scopes.some((scope) => scope === text)
}
