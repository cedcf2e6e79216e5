import { type Signal, useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { ComponentChildren, VNode } from 'preact'
import { Failure } from '../base/failure.ts'
import { Dialog } from './dialog.ts'

/** The work of a dialog. */
export interface Work {
  readonly run: () => Promise<void>
  readonly isRunning: Signal<boolean>
  /** The reason why the last run failed. */
  readonly failure: Signal<Failure | undefined>
}

/** Runs the work of a dialog when the reader asks for it. @param onDone is called when the work is done */
export function useWork(work: () => Promise<void>, onDone: () => void): Work {
  const isRunning = useSignal(false)
  const failure = useSignal<Failure | undefined>(undefined)
  const run = async () => {
    if (isRunning.value) return
    isRunning.value = true
    failure.value = undefined
    try {
      await work()
      onDone()
    } catch (error) {
      failure.value = Failure.of(error)
    } finally {
      isRunning.value = false
    }
  }
  return { run, isRunning, failure }
}

interface QuestionProps {
  readonly title: string
  /** The text of the button that begins the work. */
  readonly verb: string
  readonly work: () => Promise<void>
  readonly onDone: () => void
  readonly onClose: () => void
  readonly class?: string
  readonly width: string
  readonly children?: ComponentChildren
}

/** A dialog that asks for confirmation. A failure of the work stays in the dialog. */
export function Question({ title, verb, work, onDone, onClose, class: name, width, children }: QuestionProps): VNode {
  const { run, isRunning, failure } = useWork(work, onDone)
  return html`
    <${Dialog} title=${title} class=${name} width=${width} onClose=${onClose}>
      ${children}
      ${failure.value && html`<p class="fault" role="alert">${failure.value.message}</p>`}
      <p class="row">
        <button type="button" class="main danger" disabled=${isRunning.value} onClick=${run}>${failure.value ? 'Try again' : verb}</button>
        <button type="button" onClick=${onClose}>Keep it</button>
      </p>
    <//>
  `
}
