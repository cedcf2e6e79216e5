import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { type Message, type Swipe, withMessage, withShownSwipe } from './messages.ts'
import { sendAgain } from './reply.ts'
import type { Talk } from './talk.ts'

/** The editor of a message. Escape cancels; Ctrl+Enter or ⌘+Enter saves. */
export function Editor({ talk, message }: { readonly talk: Talk; readonly message: Message }): VNode {
  const box = useRef<HTMLTextAreaElement>(null)
  // A layout effect sets the cursor before the first key press. A later effect could move the cursor while the reader types.
  useLayoutEffect(() => {
    box.current?.focus()
    box.current?.setSelectionRange(box.current.value.length, box.current.value.length)
  }, [])
  const close = () => {
    const article = box.current?.closest('article')
    talk.editing.value = undefined
    article?.focus()
  }
  const save = (event?: Event) => {
    event?.preventDefault()
    const text = talk.editing.value?.text ?? ''
    if (text.trim() !== '')
      talk.messages.value = withMessage(talk.messages.value, message.id, (kept) => withShownSwipe(kept, edited(text)))
    close()
  }
  const saveAndSend = () => {
    save()
    sendAgain(talk, message.id)
  }
  const onInput = () => {
    talk.editing.value = { id: message.id, text: box.current?.value ?? '' }
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close()
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) save(event)
  }
  return html`
    <form class="edit" onSubmit=${save}>
      <textarea ref=${box} dir="auto" aria-label="Text of the message" value=${talk.editing.value?.text} onInput=${onInput} onKeyDown=${onKeyDown}></textarea>
      <div class="row">
        <button type="submit" class="main">Save</button>
        ${message.role === 'user' && html`<button type="button" onClick=${saveAndSend}>Save and send again</button>`}
        <button type="button" class="quiet" onClick=${close}>Cancel</button>
      </div>
    </form>
  `
}

/** A changed greeting is no longer the card's greeting. So it is sent to the model as text. */
function edited(text: string): (swipe: Swipe) => Swipe {
  return ({ greeting, ...swipe }) => ({
    ...swipe,
    text,
    ...(swipe.text === text && greeting !== undefined && { greeting }),
  })
}
