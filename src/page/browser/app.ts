import { signal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentType, VNode } from 'preact'
import { Failure } from './failure.ts'
import { addressOf, place } from './route.ts'
import { identity, may, signOut } from './session.ts'
import { SignIn } from './sign-in.ts'
import { Notices } from './ui/notices.ts'

/** A view: what the bar above calls it, for whom it is, and the module that is loaded when it is first shown. */
interface ViewEntry {
  readonly name: string
  readonly title: string
  readonly isFor: () => boolean
  readonly load: () => Promise<{ readonly View: ComponentType }>
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

/** Modules of views that were shown; a failure to load is kept until the view is chosen again. */
const loaded = signal<ReadonlyMap<string, ComponentType | Failure>>(new Map())

/** The whole page. */
export function App(): VNode {
  if (identity.value === null) return html`<${SignIn} /><${Notices} />`
  if (identity.value === undefined) return html`<p class="waiting" role="status">Signing in …</p>`
  const shown = views.filter(({ isFor }) => isFor())
  const current = shown.find(({ name }) => name === place.value[0]) ?? shown[0]
  return html`
    <a class="skip" href="#view" onClick=${skipToView}>Skip to the content</a>
    <header class="bar">
      <span class="brand">Conservatory</span>
      <nav aria-label="Views">
        ${shown.map(
          ({ name, title }) =>
            html`<a href=${addressOf(name)} aria-current=${name === current?.name ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      <span class="who">
        <span class="account">${identity.value.account}</span>
        <button type="button" class="quiet" onClick=${() => signOut()}>Sign out</button>
      </span>
    </header>
    <main id="view" tabindex="-1">${current && html`<${Loaded} key=${current.name} entry=${current} />`}</main>
    <${Notices} />
  `
}

/** A view, once its module is here. */
function Loaded({ entry }: { readonly entry: ViewEntry }): VNode {
  const view = loaded.value.get(entry.name)
  if (view === undefined) {
    void load(entry)
    return html`<p class="waiting" role="status">Loading …</p>`
  }
  if (view instanceof Failure) {
    const again = () => note(entry.name, undefined)
    return html`
      <div class="waiting" role="alert">
        <p>${view.message}</p>
        <p><button type="button" onClick=${again}>Try again</button> <button type="button" onClick=${() => location.reload()}>Reload the page</button></p>
      </div>
    `
  }
  return html`<${view} />`
}

async function load({ name, load: fetchModule }: ViewEntry): Promise<void> {
  try {
    note(name, (await fetchModule()).View)
  } catch {
    const message = 'This part of the page could not be loaded: the service does not answer, or it has a newer page.'
    note(name, new Failure(0, 'not_loaded', message))
  }
}

function note(name: string, view: ComponentType | Failure | undefined): void {
  const next = new Map(loaded.value)
  if (view) next.set(name, view)
  else next.delete(name)
  loaded.value = next
}

/** The address has the view in it, which a jump within the page must not change. */
function skipToView(event: Event): void {
  event.preventDefault()
  document.getElementById('view')?.focus()
}
