import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { identity, offeredKey, signIn, signInFailure, signOut, signOutReason, takeOfferedKey } from './base/session.ts'
import { Dialog } from './ui/dialog.ts'

/** The form that asks for a key. */
export function SignIn(): VNode {
  return html`
    <main class="sign-in">
      <h1>Conservatory</h1>
      <p>Chat with characters, and keep a list of plants.</p>
      <form onSubmit=${submit}>
        <label for="key">Your key</label>
        <input id="key" name="key" type="password" autocomplete="off" spellcheck=${false} placeholder="cv_…" required autofocus
          aria-describedby="key-help" aria-invalid=${signOutReason.value ? 'true' : undefined} />
        <p id="key-help" class="help">The service prints a key when it is started for the first time; later keys come from the operator. Your key is kept in this tab until you close it or sign out.</p>
        ${signOutReason.value && html`<p class="fault" role="alert">${signOutReason.value}</p>`}
        <button type="submit" class="main">Sign in</button>
      </form>
    </main>
  `
}

/** Shows that the page signs in, and a failure after which it tries again. */
export function SigningIn(): VNode {
  const { value: failure } = signInFailure
  if (!failure) return html`<p class="waiting" role="status">Signing in …</p>`
  return html`
    <main class="waiting" role="alert">
      <p>${failure.message}</p>
      <p>Your key is kept, and the page tries again by itself.</p>
      <p><button type="button" class="quiet" onClick=${() => signOut()}>Sign out</button></p>
    </main>
  `
}

/** Asks whether the key of the opened address replaces the signed-in key. */
export function OfferedKey(): VNode | null {
  if (offeredKey.value === undefined) return null
  const stay = () => {
    offeredKey.value = undefined
  }
  const whose = identity.value ? html`the account <bdi>${identity.value.account}</bdi>` : 'your account'
  return html`
    <${Dialog} title="Another key" onClose=${stay}>
      <p>The address that you have opened has another key. With it you leave ${whose}, and whoever made the address can read what you write. Continue only if you expected this.</p>
      <p class="row">
        <button type="button" class="main" onClick=${stay}>Stay here</button>
        <button type="button" onClick=${takeOfferedKey}>Use the other key</button>
      </p>
    </${Dialog}>
  `
}

function submit(event: SubmitEvent): void {
  event.preventDefault()
  const { currentTarget: form } = event
  if (!(form instanceof HTMLFormElement)) return
  const key = new FormData(form).get('key')
  if (typeof key === 'string' && key.trim() !== '') void signIn(key)
}
