import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { getJson } from '../base/api.ts'
import { useLoading } from '../ui/loading.ts'
import { shownSwipe } from './messages.ts'
import { settings } from './settings.ts'
import type { Talk } from './talk.ts'

/** A model as `GET /models` lists it. Only understudies have a description. */
export interface ListedModel {
  readonly id: string
  readonly description?: string
}

/** The conversation of the model. */
export interface AnsweringModelProps {
  readonly talk: Talk
  /** Whether the settings are open. Then the shown model stays, because each typed letter of an id would be a request. */
  readonly isChanging: boolean
}

/** The model that has written the last reply, or that will write the first one. Says so if the model is a test double. */
export function AnsweringModel({ talk, isChanging }: AnsweringModelProps): VNode {
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
