import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Failure } from '../base/failure.ts'
import { formatNumber } from '../ui/format.ts'
import { Portrait } from '../ui/portrait.ts'
import { MessageItem } from './message.ts'
import type { Origin } from './messages.ts'
import { answer } from './reply.ts'
import type { Talk } from './talk.ts'

/** The number of messages that are shown at first, and that each click on the button adds. A conversation may have thousands. */
const portion = 40
/** If the log is scrolled to within this many pixels of its end, it follows a streamed reply. */
const nearEndPx = 80

/** The messages of a conversation. The log scrolls with a streamed reply while the reader is at the end of the log. */
export function Log({ talk, onReceipt }: { readonly talk: Talk; readonly onReceipt: (origin: Origin) => void }): VNode {
  const log = useRef<HTMLDivElement>(null)
  const top = useRef(0)
  const shownCount = useSignal(portion)
  const isFollowing = useSignal(true)
  const messages = talk.messages.value
  const hidden = Math.max(0, messages.length - shownCount.value)
  const toEnd = () => {
    const { current } = log
    if (current) current.scrollTop = current.scrollHeight
  }
  const onScroll = () => {
    const { current } = log
    if (!current) return
    const { scrollTop, scrollHeight, clientHeight } = current
    // New text also increases the distance to the end. So following stops only when the reader scrolls up.
    if (scrollHeight - scrollTop - clientHeight < nearEndPx) isFollowing.value = true
    else if (scrollTop < top.current) isFollowing.value = false
    top.current = scrollTop
  }
  useEffect(() => {
    const { current } = log
    const content = current?.firstElementChild
    if (!current || !content) return
    const observer = new ResizeObserver(() => {
      if (isFollowing.peek()) toEnd()
    })
    observer.observe(content)
    observer.observe(current)
    return () => observer.disconnect()
  }, [])
  const last = messages.at(-1)
  useEffect(() => {
    if (last?.role !== 'user' && !talk.run.value) return
    isFollowing.value = true
    toEnd()
  }, [messages.length])
  return html`
    <div class="log-frame grow">
      <div class="log" ref=${log} role="log" aria-live="off" aria-label=${`Conversation with ${talk.name}`} onScroll=${onScroll}>
        <div class="log-content">
          <${Intro} talk=${talk} />
          ${hidden > 0 && html`<p class="earlier"><button type="button" onClick=${() => (shownCount.value += portion)}>Show earlier messages (${formatNumber(hidden)})</button></p>`}
          ${messages.slice(hidden).map((message, index) => {
            const position = hidden + index
            const isLast = position === messages.length - 1
            return html`<${MessageItem} key=${message.id} talk=${talk} message=${message} isLast=${isLast} label=${`Message ${position + 1} of ${messages.length}`} onReceipt=${onReceipt} />`
          })}
          ${last?.role === 'user' && !talk.run.value && html`<p class="earlier"><button type="button" onClick=${() => answer(talk)}>Get a reply</button></p>`}
        </div>
      </div>
      ${!isFollowing.value && html`<button type="button" class="to-end" onClick=${toEnd}>↓ To the newest message</button>`}
    </div>
  `
}

/** The character, above the messages. */
function Intro({ talk }: { readonly talk: Talk }): VNode {
  const character = talk.character.value
  if (character instanceof Failure) {
    return html`<p role="alert" class="fault">${character.message} <button type="button" onClick=${() => void talk.loadCharacter()}>Try again</button></p>`
  }
  if (!character) return html`<p class="waiting" role="status">Loading …</p>`
  return html`
    <div class="intro">
      <${Portrait} name=${character.name} digest=${character.digest} hasPicture=${character.has_avatar ?? false} />
      <h2><bdi>${character.name}</bdi></h2>
      ${character.creator && html`<p class="faint">by <bdi>${character.creator}</bdi></p>`}
      <p class="tags">${character.tags.slice(0, 20).map((tag) => html`<bdi class="tag one-line" key=${tag}>${tag}</bdi>`)}</p>
      ${character.creator_notes && html`<details><summary class="faint">Notes by the creator</summary><p class="notes" dir="auto">${character.creator_notes}</p></details>`}
    </div>
  `
}
