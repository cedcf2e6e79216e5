import { signal } from '@preact/signals'
import { changeKey, getJson, giveKey } from './api.ts'
import { Failure } from './failure.ts'
import { decoded, leave } from './route.ts'

/** What a key may do. */
export type Scope = 'plants:read' | 'plants:write' | 'chat' | 'characters:write' | 'keys' | 'admin'

/** Whom a key belongs to, as `GET /limits` tells it. */
export interface Identity {
  readonly account: string
  readonly prefix: string
  readonly name: string | null
  readonly scopes: readonly Scope[]
  /** Unix seconds. */
  readonly expires: number | null
}

/** Kept for the tab alone: it is gone when the tab closes, and no other tab has it. */
const storedKey = 'conservatory-key'
/** Whose talks and such are kept for the tab. */
const storedAccount = 'conservatory-account'

/** Who is signed in: null for nobody, undefined while that is found out. */
export const identity = signal<Identity | null | undefined>(null)

/** Why nobody is signed in any more, for the form that asks for a key; empty where there is nothing to say. */
export const signedOutBecause = signal('')

/**
 * Takes the key out of an address such as `/#key=cv_…`, and out of the history of the tab: a fragment is never sent to a
 * server, and a key that stayed in the address bar would be seen by whoever looks at the screen. Call it when the page is
 * loaded, and whenever the fragment changes: a tab that has the page already does not load it again.
 */
export function takeKeyFromAddress(): void {
  const given = keyIn(location.hash)
  if (given !== undefined) leave()
  if (given === undefined && identity.value !== null) return
  const stored = sessionStorage.getItem(storedKey)
  const key = given || stored
  // Who is signed in with it already goes on; another key is another session.
  if (!key || (identity.value !== null && key === stored)) return
  if (identity.value !== null) signOut()
  void signIn(key)
}

/** The key in a fragment. A key that an operator has chosen may have any character in it, encoded or not. */
function keyIn(fragment: string): string | undefined {
  const [, key] = /^#key=(.*)$/s.exec(fragment) ?? []
  return key?.replaceAll(/(?:%[0-9a-f]{2})+/gi, decoded)
}

/** Signs in with a key, and tells in `signedOutBecause` why it cannot. */
export async function signIn(given: string): Promise<void> {
  const key = given.trim()
  // No header carries such a key, and no service has one.
  if (/[^\x20-\x7e]/.test(key)) return signOut('This key has characters in it that no key has. Copy it once more.')
  identity.value = undefined
  signedOutBecause.value = ''
  giveKey(key, signOut)
  try {
    const { key: known } = await getJson<{ readonly key: Identity }>('limits')
    // What one account has kept in this tab is nothing to the next.
    if ((sessionStorage.getItem(storedAccount) ?? known.account) !== known.account) sessionStorage.clear()
    sessionStorage.setItem(storedAccount, known.account)
    sessionStorage.setItem(storedKey, key)
    identity.value = known
  } catch (error) {
    const { code, message } = Failure.of(error)
    // Another key has been given meanwhile.
    if (code === 'stopped') return
    signOut(message)
  }
}

/**
 * Forgets the key; and all else that is kept for the tab, where the reader wants to leave: one whose key has run out goes on
 * with another.
 * @param reason what the form says then
 */
export function signOut(reason = ''): void {
  if (reason === '') {
    sessionStorage.clear()
    // The address may have the name of a character that others do not see.
    leave()
  } else sessionStorage.removeItem(storedKey)
  giveKey('', signOut)
  signedOutBecause.value = reason
  identity.value = null
}

/** Whether the key may do this; views show what their reader may do, and nothing else. */
export function may(scope: Scope): boolean {
  return identity.value?.scopes.includes(scope) ?? false
}

/** Goes on with another key of the same account, like the one before, which may end now: nothing on the page is lost. */
export function goOnWith(key: string, changed: Pick<Identity, 'prefix' | 'expires'>): void {
  if (!identity.value) return
  changeKey(key)
  sessionStorage.setItem(storedKey, key)
  identity.value = { ...identity.value, ...changed }
}
