import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { signIn, signOutReason } from './base/session.ts'

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

function submit(event: SubmitEvent): void {
  event.preventDefault()
  const { currentTarget: form } = event
  if (!(form instanceof HTMLFormElement)) return
  const key = new FormData(form).get('key')
  if (typeof key === 'string' && key.trim() !== '') void signIn(key)
}
