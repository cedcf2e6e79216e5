import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { goTo, place } from '../base/route.ts'
import { Conversation } from './conversation.ts'
import { Gallery } from './gallery.ts'
import { current, open, openLast } from './talks.ts'

/** The view: a conversation with the character that the address names, or that was talked to last; else all characters to choose from. */
export function View(): VNode {
  const [, wanted] = place.value
  useEffect(() => {
    if (wanted) open(wanted)
    else openLast()
  }, [wanted])
  const talk = current.value
  if (!talk) {
    return html`
      <section class="chat-start">
        <h1>Choose a character</h1>
        <${Gallery} onChoose=${(name: string) => goTo('chat', name)} />
      </section>
    `
  }
  return html`<${Conversation} key=${talk.id} talk=${talk} />`
}
