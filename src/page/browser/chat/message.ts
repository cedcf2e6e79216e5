import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Failure } from '../base/failure.ts'
import { copy } from '../ui/copy.ts'
import { formatMoment } from '../ui/format.ts'
import { Markdown } from '../ui/markdown.ts'
import { Portrait } from '../ui/portrait.ts'
import { Editor } from './message-editor.ts'
import { isWithoutCard, leafed, type Message, type Origin, type Swipe, shownSwipe, withMessage } from './messages.ts'
import { continueReply, regenerate } from './reply.ts'
import { settings } from './settings.ts'
import type { Talk } from './talk.ts'
import { deleteLast } from './talks.ts'

interface MessageProps extends Omit<ActionsProps, 'onLeaf'> {
  /** The position of the message, for screen readers. */
  readonly label: string
}

/** A message with its buttons. While the message has the focus, the arrow keys go through its texts. */
export function MessageItem(props: MessageProps): VNode {
  const { talk, message, isLast, label } = props
  const run = talk.run.value?.messageId === message.id ? talk.run.value : undefined
  const isUser = message.role === 'user'
  const swipe = shownSwipe(message)
  const text = run ? run.text.value : swipe.text
  const isEdited = talk.editing.value?.id === message.id
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || run) return
    if (event.key === 'ArrowLeft') leaf(talk, message, -1)
    if (event.key === 'ArrowRight') leaf(talk, message, 1)
  }
  return html`
    <article class=${`message ${message.role}`} tabindex="0" aria-label=${label} aria-busy=${run !== undefined} onKeyDown=${onKeyDown}>
      ${!isUser && html`<${Face} talk=${talk} />`}
      <div class="said grow">
        <p class="by one-line"><bdi class="name">${isUser ? settings.value.userName || 'You' : talk.name}</bdi> <span class="faint">${formatMoment(swipe.at / 1000)}${isWithoutCard(swipe) && ' · no card'}</span></p>
        ${
          isEdited
            ? html`<${Editor} talk=${talk} message=${message} />`
            : (text.trim() !== '' || run || !swipe.ending) &&
              html`
              <div class="panel bubble">
                ${text === '' && run ? html`<p class="thinking" aria-label="Waiting for the first words"><span></span><span></span><span></span></p>` : html`<${Markdown} text=${text} isGrowing=${run !== undefined} />`}
              </div>`
        }
        ${!run && !isEdited && swipe.ending && html`<${Ending} talk=${talk} swipe=${swipe} isLast=${isLast} />`}
        ${!run && !isEdited && html`<${Actions} ...${props} onLeaf=${(by: -1 | 1) => leaf(talk, message, by)} />`}
      </div>
    </article>
  `
}

/** The picture of a conversation's character. */
export function Face({ talk }: { readonly talk: Talk }): VNode {
  const character = talk.character.value
  const known = character instanceof Failure ? undefined : character
  return html`<${Portrait} name=${talk.name} digest=${known?.digest ?? ''} hasPicture=${known?.has_avatar ?? false} />`
}

/** Shows the previous or the next text. After the last text of the last reply, another text is requested. */
function leaf(talk: Talk, message: Message, by: -1 | 1): void {
  if (talk.run.value) return
  const next = leafed(message, by)
  const isEnd = by === 1 && next.shown === message.shown
  const isLast = talk.messages.value.at(-1)?.id === message.id
  if (isEnd && isLast && message.role === 'assistant' && !message.isOpening) regenerate(talk)
  else talk.messages.value = withMessage(talk.messages.value, message.id, () => next)
}

interface ActionsProps {
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
