import { signal } from '@preact/signals'
import { changeKey, getJson, startSession } from './api.ts'
import { Failure } from './failure.ts'
import { decoded, leave } from './route.ts'

/** The scopes of keys. */
export type Scope = 'plants:read' | 'plants:write' | 'chat' | 'characters:write' | 'keys' | 'admin'

/** A key and its account, as `GET /limits` returns them. */
export interface Identity {
  readonly account: string
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly Scope[]
  /** Unix seconds. */
  readonly expires: number | null
}

/** The entry with the key in the session storage. The session storage ends with the tab, and is not shared with other tabs. */
const storedKey = 'conservatory-key'
/** The entry with the account that the data in the session storage belong to, such as conversations. */
const storedAccount = 'conservatory-account'

/** The signed-in key. Null if no key is signed in. Undefined while the page signs in. */
export const identity = signal<Identity | null | undefined>(null)

/** The reason of the last sign-out, for the sign-in form; empty for none. */
export const signOutReason = signal('')

/**
 * Signs in with the key of an address such as `/#key=cv_…`, otherwise with the stored key. Removes the key from the address and
 * from the tab's history. A fragment is never sent to a server, but people could see the key on the screen. Call this function
 * when the page is loaded, and whenever the fragment changes: a tab that already shows the page does not load the page again.
 */
export function takeKeyFromAddress(): void {
  const given = keyIn(location.hash)
  if (given !== undefined) leave()
  if (given === undefined && identity.value !== null) return
  const stored = sessionStorage.getItem(storedKey)
  const key = given || stored
  // The same key continues the session. Another key begins a new session.
  if (!key || (identity.value !== null && key === stored)) return
  if (identity.value !== null) signOut()
  void signIn(key)
}

/** The key in a fragment. The operator's BOOTSTRAP_KEY may have any printable ASCII character, encoded or not. */
function keyIn(fragment: string): string | undefined {
  const [, key] = /^#key=(.*)$/s.exec(fragment) ?? []
  return key?.replaceAll(/(?:%[0-9a-f]{2})+/gi, decoded)
}

/** Signs in with a key. If this fails, `signOutReason` has the reason. */
export async function signIn(given: string): Promise<void> {
  const key = given.trim()
  // Keys of the service have only printable ASCII characters.
  if (/[^\x20-\x7e]/.test(key)) return signOut('This key has characters in it that no key has. Copy it once more.')
  identity.value = undefined
  signOutReason.value = ''
  startSession(key, signOut)
  try {
    const { key: known } = await getJson<{ readonly key: Identity }>('limits')
    // This account must not see the data that another account has stored in this tab.
    if ((sessionStorage.getItem(storedAccount) ?? known.account) !== known.account) sessionStorage.clear()
    sessionStorage.setItem(storedAccount, known.account)
    sessionStorage.setItem(storedKey, key)
    identity.value = known
  } catch (error) {
    const { code, message } = Failure.of(error)
    // The reader has entered another key, and the new session has aborted this request.
    if (code === 'stopped') return
    signOut(message)
  }
}

/**
 * Forgets the key. Without a reason, the reader has chosen to sign out, so all other data of the tab is removed too. With a
 * reason, such as an expired key, the data stays, because the reader may continue with another key.
 * @param reason the sentence for the sign-in form
 */
export function signOut(reason = ''): void {
  if (reason === '') {
    sessionStorage.clear()
    // The address may contain the name of a private character.
    leave()
  } else sessionStorage.removeItem(storedKey)
  startSession('', signOut)
  signOutReason.value = reason
  identity.value = null
}

/** Whether the key has a scope. Views show only the actions that the key permits. */
export function may(scope: Scope): boolean {
  return identity.value?.scopes.includes(scope) ?? false
}

/** Continues with another key that has the same account and scopes. So the page keeps its state when the old key expires. */
export function switchKey(key: string, changed: Pick<Identity, 'prefix' | 'expires'>): void {
  if (!identity.value) return
  changeKey(key)
  sessionStorage.setItem(storedKey, key)
  identity.value = { ...identity.value, ...changed }
}
