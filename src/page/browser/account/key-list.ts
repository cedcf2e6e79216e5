import { ask, getJson } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { identity, ofAccount, type Scope, signOut, switchKey } from '../base/session.ts'
import { LatestRequest } from '../ui/latest-request.ts'

/** A key of `GET /keys`. Moments are Unix seconds. */
export interface Key {
  readonly id: string
  /** The beginning of the key, which identifies it. */
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly Scope[]
  readonly created: number
  readonly expires: number | null
  readonly last_used: number | null
  readonly limits: Readonly<Record<string, number>>
  /** Null for all models of the account. */
  readonly models: readonly string[] | null
}

/** A new key with its secret. The service shows the secret only once. */
export interface NewKey extends Key {
  readonly key: string
}

/** The request for a new key. */
export interface KeyRequest {
  readonly name: string | null
  readonly scopes: readonly Scope[]
  readonly expires: number | null
  readonly limits: Readonly<Record<string, number>>
  readonly models: readonly string[] | null
}

/** The valid keys of the account. */
export const keys = new LatestRequest<readonly Key[]>()

/** The key that was made last, until the reader confirms that it is saved. It cannot be shown again. */
export const newKey = ofAccount<NewKey | undefined>(undefined)

/** Whether the page has been signed in with this key. */
export function isOwn({ prefix }: Key): boolean {
  return identity.value?.prefix === prefix
}

/** Loads the list of keys. */
export function loadKeys(): Promise<void> {
  return keys.ask(async (signal) => {
    const loaded: Key[] = []
    for await (const page of keyPages(signal)) loaded.push(...page)
    return loaded
  })
}

/** Requests the valid keys of the account, page by page. @throws Failure */
export async function* keyPages(signal?: AbortSignal): AsyncGenerator<readonly Key[]> {
  for (let query = ''; ; ) {
    const page = await getJson<{ readonly data: readonly Key[]; readonly has_more: boolean }>(
      `keys${query}`,
      signal && { signal },
    )
    yield page.data
    const last = page.data.at(-1)
    if (!page.has_more || !last) return
    query = `?after=${encodeURIComponent(last.id)}`
  }
}

/** Makes a key. @throws Failure */
export async function makeKey(wanted: KeyRequest): Promise<void> {
  newKey.value = await getJson<NewKey>('keys', { method: 'POST', json: wanted })
  void loadKeys()
}

/** Rotates a key. If the page is signed in with this key, it continues with the new key. @throws Failure */
export async function rotateKey(key: Key, overlapSeconds: number): Promise<void> {
  const wasOwn = isOwn(key)
  const path = `keys/${encodeURIComponent(key.id)}/rotate`
  const made = await getJson<NewKey>(path, { method: 'POST', json: { overlap_seconds: overlapSeconds } })
  newKey.value = made
  if (wasOwn) switchKey(made.key, made)
  void loadKeys()
}

/** Revokes a key. If the page is signed in with this key, it signs out. @throws Failure */
export async function revokeKey(key: Key): Promise<void> {
  await ask(`keys/${encodeURIComponent(key.id)}`, { method: 'DELETE' }).catch((error: unknown) => {
    // A 404 means that the key was already revoked or expired, so there is nothing left to do.
    if (Failure.of(error).status !== 404) throw error
  })
  if (isOwn(key)) return signOut('You have revoked the key that you were signed in with. Sign in with another one.')
  keys.answer.value = keys.answer.value?.filter(({ id }) => id !== key.id)
}
