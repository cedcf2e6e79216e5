import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { addressOf, place } from '../base/route.ts'
import { may } from '../base/session.ts'
import { Loaded, type LoadedView } from '../ui/loaded-view.ts'

/** A part of the account's view, the title of its link, and the condition under which it is shown. Its name is in the address. */
interface Part extends LoadedView {
  readonly title: string
  readonly isFor: () => boolean
}

const mayKeys = () => may('keys') || may('admin')

const parts: readonly Part[] = [
  {
    name: 'limits',
    title: 'Limits',
    isFor: () => true,
    load: () => import('./limits.ts'),
  },
  {
    name: 'keys',
    title: 'Keys',
    isFor: mayKeys,
    load: () => import('./keys.ts'),
  },
  {
    name: 'usage',
    title: 'Usage',
    isFor: () => may('chat') || mayKeys(),
    load: () => import('./usage.ts'),
  },
  {
    name: 'requests',
    title: 'Requests',
    isFor: () => may('chat') || mayKeys(),
    load: () => import('./requests.ts'),
  },
  {
    name: 'audit',
    title: 'Audit trail',
    isFor: mayKeys,
    load: () => import('./audit.ts'),
  },
]

/** The account of the key, in parts with their own addresses. */
export function View(): VNode {
  const shown = parts.filter(({ isFor }) => isFor())
  const current = shown.find(({ name }) => name === place.value[1]) ?? shown[0]
  return html`
    <div class="account-view">
      <h1>Account</h1>
      <nav class="row parts" aria-label="Parts of the account">
        ${shown.map(
          ({ name, title }) =>
            html`<a href=${addressOf('account', name)} aria-current=${name === current?.name ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      ${current && html`<${Loaded} key=${current.name} view=${current} />`}
    </div>
  `
}
