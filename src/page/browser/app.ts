import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { addressOf, place } from './base/route.ts'
import { identity, may, signOut } from './base/session.ts'
import { OfferedKey, SignIn, SigningIn } from './sign-in.ts'
import { Loaded, type LoadedView } from './ui/loaded-view.ts'
import { Notices } from './ui/notices.ts'

/** A view, its title in the bar above, and the condition under which it is shown. */
interface ViewEntry extends LoadedView {
  readonly title: string
  readonly isFor: () => boolean
}

const views: readonly ViewEntry[] = [
  {
    name: 'chat',
    title: 'Chat',
    isFor: () => may('chat'),
    load: () => import('./chat/view.ts'),
  },
  {
    name: 'characters',
    title: 'Characters',
    isFor: () => may('chat') || may('characters:write'),
    load: () => import('./characters/view.ts'),
  },
  {
    name: 'plants',
    title: 'Plants',
    isFor: () => may('plants:read') || may('plants:write'),
    load: () => import('./plants/view.ts'),
  },
  {
    name: 'account',
    title: 'Account',
    isFor: () => true,
    load: () => import('./account/view.ts'),
  },
]

/** The whole page. */
export function App(): VNode {
  const shown = views.filter(({ isFor }) => isFor())
  const current = identity.value ? (shown.find(({ name }) => name === place.value[0]) ?? shown[0]) : undefined
  const title = current ? `${current.title} – Conservatory` : 'Conservatory'
  useEffect(() => {
    document.title = title
  }, [title])
  if (identity.value === null) return html`<${SignIn} /><${OfferedKey} /><${Notices} />`
  if (identity.value === undefined) return html`<${SigningIn} /><${OfferedKey} />`
  return html`
    <a class="skip" href="#view" onClick=${skipToView}>Skip to the content</a>
    <header class="row bar">
      <span class="brand">Conservatory</span>
      <nav aria-label="Views">
        ${shown.map(
          ({ name, title }) =>
            html`<a href=${addressOf(name)} aria-current=${name === current?.name ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      <span class="row who">
        <span class="account one-line">${identity.value.account}</span>
        <button type="button" class="quiet" onClick=${() => signOut()}>Sign out</button>
      </span>
    </header>
    <main id="view" tabindex="-1">${current && html`<${Loaded} key=${current.name} view=${current} />`}</main>
    <${OfferedKey} />
    <${Notices} />
  `
}

/** Moves the focus to the view. The link must not change the fragment of the address, because the fragment names the view. */
function skipToView(event: Event): void {
  event.preventDefault()
  document.getElementById('view')?.focus()
}
