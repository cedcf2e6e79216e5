import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { shownSwipe } from './messages.ts'
import { send } from './reply.ts'
import type { Talk } from './talk.ts'

/**
 * The text field for a message. Enter sends the message, Shift+Enter begins a new line, and Arrow Up in an empty field edits the
 * user's last message.
 */
export function Composer({ talk }: { readonly talk: Talk }): VNode {
  const box = useRef<HTMLTextAreaElement>(null)
  const isRunning = talk.run.value !== undefined
  // The field gets the focus, but not on a phone, because the keyboard of a phone would cover the greeting.
  useEffect(() => {
    if (matchMedia('(hover: hover)').matches) box.current?.focus()
  }, [])
  const submit = (event?: Event) => {
    event?.preventDefault()
    box.current?.focus()
    const { value: text } = talk.draft
    if (isRunning || text.trim() === '') return
    talk.draft.value = ''
    send(talk, text)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'Enter' && !event.shiftKey) submit(event)
    if (event.key === 'ArrowUp' && talk.draft.value === '' && editLast(talk)) event.preventDefault()
  }
  const onInput = () => {
    talk.draft.value = box.current?.value ?? ''
  }
  const stop = () => {
    talk.run.value?.stop()
    box.current?.focus()
  }
  return html`
    <form class="panel composer" onSubmit=${submit}>
      <textarea class="grow" ref=${box} rows="1" dir="auto" aria-label=${`Message to ${talk.name}`} placeholder="Write a message" enterkeyhint="send"
        value=${talk.draft.value} onInput=${onInput} onKeyDown=${onKeyDown}></textarea>
      ${
        isRunning
          ? html`<button key="stop" type="button" class="stop" onClick=${stop}>Stop</button>`
          : html`<button key="send" type="submit" class="main" disabled=${talk.draft.value.trim() === ''}>Send</button>`
      }
    </form>
  `
}

/** Opens the user's last message for editing. @returns whether there is a message to edit */
function editLast(talk: Talk): boolean {
  const last = talk.messages.value.findLast(({ role }) => role === 'user')
  if (!last || talk.run.value) return false
  talk.editing.value = { id: last.id, text: shownSwipe(last).text }
  return true
}
