import { batch, type Signal, signal } from '@preact/signals'
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

/** The entry of the local storage with the settings of an account. It is the only entry of the page in this storage. */
export function settingsOf(account: string): string {
  return `conservatory-chat-settings:${account}`
}

/** Seconds until the page tries again to sign in, if the service has not sent a time. */
const retryAfterSeconds = 5
let retryTimer: ReturnType<typeof setTimeout> | undefined

/** The signed-in key. Null if no key is signed in. Undefined while the page signs in. */
export const identity = signal<Identity | null | undefined>(null)

/**
 * A signal with data of one account. At the sign-out it gets its first value again, because the next account in this tab must not
 * see the data.
 */
export function ofAccount<T>(first: T): Signal<T> {
  const data = signal(first)
  identity.subscribe((who) => {
    if (who === null) data.value = first
  })
  return data
}

/** The reason of the last sign-out, for the sign-in form; empty for none. */
export const signOutReason = signal('')

/** The reason why the page could not sign in yet. The service has not refused the key, so the page tries again. */
export const signInFailure = signal<Failure | undefined>(undefined)

/** The key of an address that was opened while another key was signed in. It waits for the consent of the reader. */
export const offeredKey = signal<string | undefined>(undefined)

/**
 * Signs in with the stored key, otherwise with the key of an address such as `/#key=cv_…`. Removes the key from the address and
 * from the tab's history. A fragment is never sent to a server, but people could see the key on the screen. Call this function
 * when the page is loaded, and whenever the fragment changes: a tab that already shows the page does not load the page again.
 */
export function takeKeyFromAddress(): void {
  const given = keyIn(location.hash)
  if (given !== undefined) leave()
  const stored = sessionStorage.getItem(storedKey)
  // Another site may have made the address, so that the reader works in the account of a stranger.
  if (given && stored && given !== stored) offeredKey.value = given
  const key = stored || given
  if (key && identity.value === null) void signIn(key)
}

/** Signs out, and signs in with the key of the opened address. */
export function takeOfferedKey(): void {
  const { value: key } = offeredKey
  signOut()
  if (key !== undefined) void signIn(key)
}

/** The key in a fragment. The operator's BOOTSTRAP_KEY may have any printable ASCII character, encoded or not. */
function keyIn(fragment: string): string | undefined {
  const [, key] = /^#key=(.*)$/s.exec(fragment) ?? []
  return key?.replaceAll(/(?:%[0-9a-f]{2})+/gi, decoded)
}

/**
 * Signs in with a key. If the service refuses the key, `signOutReason` has the reason. After another failure the key stays, and
 * the page tries again: the service never shows a key twice.
 */
export async function signIn(given: string): Promise<void> {
  const key = given.trim()
  // Keys of the service have only printable ASCII characters.
  if (/[^\x20-\x7e]/.test(key)) return signOut('This key has characters in it that no key has. Copy it once more.')
  clearTimeout(retryTimer)
  identity.value = undefined
  signOutReason.value = ''
  startSession(key, signOut)
  sessionStorage.setItem(storedKey, key)
  try {
    const { key: known } = await getJson<{ readonly key: Identity }>('limits')
    // This account must not see the data that another account has stored in this tab.
    if ((sessionStorage.getItem(storedAccount) ?? known.account) !== known.account) sessionStorage.clear()
    sessionStorage.setItem(storedAccount, known.account)
    sessionStorage.setItem(storedKey, key)
    batch(() => {
      signInFailure.value = undefined
      identity.value = known
    })
  } catch (error) {
    const failure = Failure.of(error)
    // The service has refused the key, or the reader has entered another key, which has aborted this request.
    if (failure.status === 401 || failure.code === 'stopped') return
    signInFailure.value = failure
    retryTimer = setTimeout(() => void signIn(key), 1000 * (failure.retryAfter ?? retryAfterSeconds))
  }
}

/**
 * Forgets the key. Without a reason, the reader has chosen to sign out, so all other data of the tab and of the account is removed
 * too. With a reason, such as an expired key, the data stays, because the reader may continue with another key.
 * @param reason the sentence for the sign-in form
 */
export function signOut(reason = ''): void {
  clearTimeout(retryTimer)
  if (reason === '') {
    const account = sessionStorage.getItem(storedAccount)
    if (account !== null) localStorage.removeItem(settingsOf(account))
    sessionStorage.clear()
    offeredKey.value = undefined
    // The address may contain the name of a private character.
    leave()
  } else sessionStorage.removeItem(storedKey)
  startSession('', signOut)
  batch(() => {
    signInFailure.value = undefined
    signOutReason.value = reason
    identity.value = null
  })
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
