import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentType, VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { goTo } from '../base/route.ts'
import type { Receipt } from '../receipt/view.ts'
import { Dialog } from '../ui/dialog.ts'
import { useLoading } from '../ui/loading.ts'
import { sayFailure } from '../ui/notices.ts'
import { Composer } from './composer.ts'
import { Gallery } from './gallery.ts'
import { Log } from './log.ts'
import { Face } from './message.ts'
import { type Origin, shownSwipe } from './messages.ts'
import { type ListedModel, settings } from './settings.ts'
import { SettingsDialog } from './settings-dialog.ts'
import { Talk } from './talk.ts'
import { keeping, replace, undoable } from './talks.ts'

/** A conversation: its character, its messages, and the text field. */
export function Conversation({ talk }: { readonly talk: Talk }): VNode {
  const shown = useSignal<'characters' | 'settings' | undefined>(undefined)
  const receipt = useSignal<
    { readonly origin: Origin; readonly View: ComponentType<Parameters<typeof Receipt>[0]> } | undefined
  >(undefined)
  const close = () => {
    // The greetings contain the reader's name, which is one of the settings.
    if (shown.value === 'settings') void talk.loadCharacter()
    shown.value = undefined
    receipt.value = undefined
  }
  const showReceipt = async (origin: Origin) => {
    try {
      const { Receipt: View } = await import('../receipt/view.ts')
      receipt.value = { origin, View }
    } catch {
      sayFailure(
        new Failure(
          0,
          'not_loaded',
          'The receipt could not be loaded: the service does not answer, or it has a newer page. Reload the page.',
        ),
      )
    }
  }
  const choose = (name: string) => {
    close()
    goTo('chat', name)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const isElsewhere = event.target instanceof Element && event.target.closest('dialog, .edit') !== null
    if (event.key === 'Escape' && !isElsewhere) talk.run.value?.stop()
  }
  return html`
    <section class="chat column" onKeyDown=${onKeyDown}>
      <${Head} talk=${talk} isChanging=${shown.value === 'settings'} show=${(what: 'characters' | 'settings') => (shown.value = what)} />
      <${Log} talk=${talk} onReceipt=${showReceipt} />
      <p class="unseen" role="status">${talk.announcement}</p>
      <${Foot} talk=${talk} />
      ${shown.value === 'characters' && html`<${Dialog} title="Characters" class="characters-dialog column" onClose=${close}><${Gallery} onChoose=${choose} /></${Dialog}>`}
      ${shown.value === 'settings' && html`<${SettingsDialog} talk=${talk} onClose=${close} />`}
      ${receipt.value && html`<${receipt.value.View} request=${receipt.value.origin.request} requestId=${receipt.value.origin.requestId} onClose=${close} />`}
    </section>
  `
}

function Head({
  talk,
  isChanging,
  show,
}: {
  readonly talk: Talk
  readonly isChanging: boolean
  readonly show: (what: 'characters' | 'settings') => void
}): VNode {
  const anew = () => replace(talk, new Talk(talk.name), 'A new conversation has begun.')
  return html`
    <header class="row chat-head">
      <${Face} talk=${talk} />
      <div class="who-is-it grow">
        <h1 class="one-line"><bdi>${talk.name}</bdi></h1>
        <${AnsweringModel} talk=${talk} isChanging=${isChanging} />
      </div>
      <div class="chat-tools">
        <button type="button" class="quiet" onClick=${() => show('characters')}>Characters</button>
        <button type="button" class="quiet" onClick=${anew} disabled=${!talk.hasBegun}>New <span class="wide-only">conversation</span></button>
        <button type="button" class="quiet" onClick=${() => show('settings')}>Settings</button>
      </div>
    </header>
  `
}

/** Notices about the conversation, and the text field. */
function Foot({ talk }: { readonly talk: Talk }): VNode {
  const { value: done } = undoable
  const undo = () => {
    done?.undo()
    undoable.value = undefined
  }
  return html`
    <footer class="chat-foot">
      ${
        keeping.value.get(talk) === 'too large' &&
        html`<p role="alert" class="fault">This conversation is too large for the browser to keep: after a reload its newest messages are gone. Export it in the settings before you leave.</p>`
      }
      ${done && html`<p role="status" class="faint undo">${done.said} <button type="button" class="quiet" onClick=${undo}>Undo</button></p>`}
      <${Composer} talk=${talk} />
    </footer>
  `
}

interface AnsweringModelProps {
  readonly talk: Talk
  /** Whether the settings are open. Then the shown model stays, because each typed letter of an id would be a request. */
  readonly isChanging: boolean
}

/** The model that has written the last reply, or that will write the first one. Says so if the model is a test double. */
function AnsweringModel({ talk, isChanging }: AnsweringModelProps): VNode {
  const chosen = useRef('default')
  if (!isChanging) chosen.current = answeringId(talk)
  const { current: id } = chosen
  const { value } = useLoading((signal) => getJson<ListedModel>(`models/${encodeURIComponent(id)}`, { signal }), [id])
  const shown = useRef<ListedModel>({ id: 'default model' })
  if (value) shown.current = value
  else if (id !== 'default' && id !== shown.current.id) shown.current = { id }
  const { id: name, description } = shown.current
  return html`
    <span class=${description ? 'faint' : 'faint one-line'}><bdi>${name}</bdi>${description && html`<span title=${description}> · test double: a stand-in, not a language model</span>`}</span>
  `
}

/** The id of the model. After a fallback, another model than the requested one has answered. */
function answeringId({ messages }: Talk): string {
  const wanted = settings.value.model || 'default'
  const last = messages.value.findLast(({ role, isOpening }) => role === 'assistant' && !isOpening)
  const origin = last && shownSwipe(last).origin
  return (origin?.request.model === wanted && origin.model) || wanted
}
