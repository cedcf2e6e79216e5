import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { addressOf, place } from '../base/route.ts'
import { may } from '../base/session.ts'
import { Loaded, type LoadedView } from '../ui/loaded-view.ts'

/** A part of the account's view, the title of its link, and the condition under which it is shown. */
interface Part extends LoadedView {
  /** The name of the part in the address. */
  readonly path: string
  readonly title: string
  readonly isFor: () => boolean
}

const mayKeys = () => may('keys') || may('admin')

const parts: readonly Part[] = [
  {
    name: 'account/limits',
    path: 'limits',
    title: 'Limits',
    isFor: () => true,
    load: () => import('./limits.ts'),
  },
  {
    name: 'account/keys',
    path: 'keys',
    title: 'Keys',
    isFor: mayKeys,
    load: () => import('./keys.ts'),
  },
  {
    name: 'account/usage',
    path: 'usage',
    title: 'Usage',
    isFor: () => may('chat') || mayKeys(),
    load: () => import('./usage.ts'),
  },
  {
    name: 'account/requests',
    path: 'requests',
    title: 'Requests',
    isFor: () => may('chat') || mayKeys(),
    load: () => import('./requests.ts'),
  },
  {
    name: 'account/audit',
    path: 'audit',
    title: 'Audit trail',
    isFor: mayKeys,
    load: () => import('./audit.ts'),
  },
]

/** The account of the key, in parts with their own addresses. */
export function View(): VNode {
  const shown = parts.filter(({ isFor }) => isFor())
  const current = shown.find(({ path }) => path === place.value[1]) ?? shown[0]
  return html`
    <div class="account-view">
      <h1>Account</h1>
      <nav class="row parts" aria-label="Parts of the account">
        ${shown.map(
          ({ path, title }) =>
            html`<a href=${addressOf('account', path)} aria-current=${path === current?.path ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      ${current && html`<${Loaded} key=${current.name} view=${current} />`}
    </div>
  `
}
