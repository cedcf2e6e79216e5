import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { Failure } from '../base/failure.ts'
import { formatMoment } from '../ui/format.ts'
import { Markdown } from '../ui/markdown.ts'
import { Portrait } from '../ui/portrait.ts'
import { Actions, type ActionsProps, Ending } from './message-actions.ts'
import { Editor } from './message-editor.ts'
import { isWithoutCard, leafed, type Message, shownSwipe, withMessage } from './messages.ts'
import { regenerate } from './reply.ts'
import { settings } from './settings.ts'
import type { Talk } from './talk.ts'

/** The message to show. */
export interface MessageProps extends Omit<ActionsProps, 'onLeaf'> {
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
      <div class="said">
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

function Face({ talk }: { readonly talk: Talk }): VNode {
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
