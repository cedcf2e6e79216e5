import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { loadLibrary } from '../base/characters.ts'
import { addressOf, place } from '../base/route.ts'
import { may } from '../base/session.ts'
import { CharacterPane } from './details.ts'
import { isOver, useDropping } from './dropping.ts'
import { Gallery } from './gallery.ts'
import { ImportPane } from './import-pane.ts'
import { imports } from './imports.ts'
import { PromptPane } from './prompt-pane.ts'

/** The list of characters, and a pane beside it: the details of one character, its prompt, or the import. */
export function View(): VNode {
  useEffect(() => void loadLibrary(), [])
  useDropping()
  useReturningFocus()
  const pane = paneAt(place.value)
  return html`
    <div class=${pane ? 'cards with-pane' : 'cards'}>
      <div class="all column">
        <div class="row spread head">
          <h1>Characters</h1>
          ${may('characters:write') && html`<a class="button" href=${addressOf('characters', '', 'import')}>${importTitle()}</a>`}
        </div>
        <${Gallery} />
      </div>
      ${pane}
      ${isOver.value && html`<div class="drop-here" aria-hidden="true"><p>Drop cards to see what they are</p></div>`}
    </div>
  `
}

/** The pane of a place. An empty name is the import pane, because no character has an empty name. */
function paneAt([, name, part]: readonly string[]): VNode | undefined {
  if (name === undefined) return undefined
  if (name === '') return part === 'import' && may('characters:write') ? html`<${ImportPane} />` : undefined
  if (part === 'prompt' && may('chat')) return html`<${PromptPane} key=${name} name=${name} />`
  return html`<${CharacterPane} key=${name} name=${name} />`
}

function importTitle(): string {
  const open = imports.value.filter(({ stage }) => stage !== 'imported').length
  return open === 0 ? 'Import cards' : `Import cards (${open})`
}

/**
 * When a pane closes, the character of the pane gets the focus in the list. If this character is not in sight, the search field
 * gets the focus.
 */
function useReturningFocus(): void {
  const before = useRef<string | undefined>(undefined)
  const name = place.value[1]
  useEffect(() => {
    const closed = before.current
    before.current = name
    if (name !== undefined || closed === undefined) return
    const links = document.querySelectorAll<HTMLAnchorElement>('.gallery a.card')
    const link = [...links].find((each) => each.getAttribute('href') === addressOf('characters', closed))
    const target = link ?? document.querySelector<HTMLElement>('.cards .search input')
    target?.focus()
  }, [name])
}
