import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { copy } from '../ui/copy.ts'
import { type Message, type Origin, type Swipe, shownSwipe } from './messages.ts'
import { continueReply, regenerate } from './reply.ts'
import type { Talk } from './talk.ts'
import { deleteLast } from './talks.ts'

/** The message of the actions, and their handlers. */
export interface ActionsProps {
  readonly talk: Talk
  readonly message: Message
  readonly isLast: boolean
  readonly onReceipt: (origin: Origin) => void
  readonly onLeaf: (by: -1 | 1) => void
}

/** The buttons of a message. */
export function Actions({ talk, message, isLast, onReceipt, onLeaf }: ActionsProps): VNode {
  const swipe = shownSwipe(message)
  const { text, origin } = swipe
  const isReply = message.role === 'assistant' && !message.isOpening
  const isBusy = talk.run.value !== undefined
  const edit = () => {
    talk.editing.value = { id: message.id, text }
  }
  return html`
    <div class=${isLast ? 'row message-actions' : 'row message-actions older'}>
      <${Leaves} message=${message} isBusy=${isBusy} canAsk=${isReply && isLast} onLeaf=${onLeaf} />
      ${text !== '' && html`<button type="button" class="quiet" onClick=${() => void copy(text, 'The message')}>Copy</button>`}
      <button type="button" class="quiet" disabled=${isBusy} onClick=${edit}>Edit</button>
      ${isReply && isLast && html`<button type="button" class="quiet" disabled=${isBusy} onClick=${() => regenerate(talk)}>Regenerate</button>`}
      ${isLast && !message.isOpening && html`<button type="button" class="quiet" disabled=${isBusy} onClick=${() => deleteLast(talk)}>Delete</button>`}
      ${origin && html`<button type="button" class="quiet" onClick=${() => onReceipt(origin)}>What the model was told</button>`}
    </div>
  `
}

interface LeavesProps {
  readonly message: Message
  readonly isBusy: boolean
  /** Whether the button for the next text may request another text after the last one. */
  readonly canAsk: boolean
  readonly onLeaf: (by: -1 | 1) => void
}

/** The buttons for the previous and the next text of a message. */
function Leaves({ message, isBusy, canAsk, onLeaf }: LeavesProps): VNode | null {
  const { swipes, shown } = message
  if (swipes.length < 2) return null
  const what = message.isOpening ? 'greeting' : 'reply'
  const isEnd = shown === swipes.length - 1
  return html`
    <span class="row leaves" role="group" aria-label=${what === 'reply' ? 'Replies' : 'Greetings'}>
      <button type="button" class="quiet" aria-label=${`Previous ${what}`} disabled=${isBusy || shown === 0} onClick=${() => onLeaf(-1)}>‹</button>
      <span class="faint count">${shown + 1} / ${swipes.length}</span>
      <button type="button" class="quiet" aria-label=${isEnd && canAsk ? 'Another reply' : `Next ${what}`} disabled=${isBusy || (isEnd && !canAsk)} onClick=${() => onLeaf(1)}>›</button>
    </span>
  `
}

/** The reason why a reply is incomplete, with buttons to continue. */
export function Ending({ talk, swipe, isLast }: { talk: Talk; swipe: Swipe; isLast: boolean }): VNode {
  const { ending, text } = swipe
  const isFault = ending?.kind === 'failed'
  return html`
    <div class=${isFault ? 'remark ending fault' : 'remark grave ending'} role=${isFault ? 'alert' : undefined}>
      <p>${ending?.message}</p>
      ${
        isLast &&
        html`<p class="row">
          ${text !== '' && html`<button type="button" onClick=${() => continueReply(talk)}>Continue</button>`}
          <button type="button" onClick=${() => regenerate(talk)}>Try again</button>
        </p>`
      }
    </div>
  `
}
