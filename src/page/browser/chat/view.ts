import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { goTo, place } from '../base/route.ts'
import { Conversation } from './conversation.ts'
import { Gallery } from './gallery.ts'
import { current, leave, open, openLast } from './talks.ts'

/**
 * The chat: the conversation with the character of the address, or the last conversation. If there is none, the list of
 * characters.
 */
export function View(): VNode {
  const [, wanted] = place.value
  const wasShown = useRef(false)
  useEffect(() => {
    if (wanted) open(wanted)
    // If the reader comes from another view, the last conversation is opened. Inside the chat, Back and “Chat” in the bar open
    // the list.
    else if (wasShown.current || !openLast()) leave()
    wasShown.current = true
  }, [wanted])
  const talk = current.value
  if (!talk) {
    return html`
      <section class="chat-start column">
        <h1>Choose a character</h1>
        <${Gallery} onChoose=${(name: string) => goTo('chat', name)} />
      </section>
    `
  }
  return html`<${Conversation} key=${talk.id} talk=${talk} />`
}
