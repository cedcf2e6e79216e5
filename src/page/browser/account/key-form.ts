import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Failure } from '../base/failure.ts'
import { identity, type Scope } from '../base/session.ts'
import { Dialog } from '../ui/dialog.ts'
import { formatMoment } from '../ui/format.ts'
import { useWork } from '../ui/work.ts'
import { isOwn, type Key, type KeyRequest, keys, makeKey } from './key-list.ts'
import { isInBytes, limitNames, titleOf } from './limit-names.ts'

/** A text for each scope. `admin` is missing, because only the command line makes keys with the scope `admin`. */
const scopeTexts: readonly (readonly [scope: Scope, text: string])[] = [
  ['plants:read', 'list plants'],
  ['plants:write', 'add and delete plants'],
  ['chat', 'chat with characters'],
  ['characters:write', 'upload and delete characters'],
  ['keys', 'make and revoke keys, see the audit trail'],
]

/** The form that makes a key. It offers only scopes that the reader's own key may give to another key. */
export function KeyForm({ onClose }: { readonly onClose: () => void }): VNode {
  const form = useRef<HTMLFormElement>(null)
  const own = keys.answer.value?.find(isOwn)
  const held = scopeTexts.filter(([scope]) => mayGive(scope))
  const make = async () => {
    const wanted = requestOf(new FormData(form.current ?? undefined))
    if (wanted.scopes.length === 0) throw new Failure(400, 'no_scope', 'Choose what it may do.', undefined, 'scopes')
    await makeKey(wanted)
  }
  const { run, isRunning, failure } = useWork(make, onClose)
  const send = (event: Event) => {
    event.preventDefault()
    void run()
  }
  // The field gets the focus before the first paint, so that a quick typist does not lose letters.
  useLayoutEffect(() => form.current?.querySelector('input')?.focus(), [])
  // Moves the focus to the faulty field, which may be out of sight or folded.
  useEffect(() => {
    const field = form.current?.querySelector<HTMLElement>('[aria-invalid]')
    field?.closest('details')?.setAttribute('open', '')
    field?.focus()
  }, [failure.value])
  const { value: fault } = failure
  return html`
    <${Dialog} title="Make a key" class="key-dialog" width="36rem" onClose=${onClose}>
      <form ref=${form} onSubmit=${send}>
        <label for="key-name">Name <span class="faint">(optional)</span></label>
        <input id="key-name" name="name" dir="auto" autocomplete="off" ...${faultOf(fault, 'name')} />
        <${FieldFault} of=${fault} param="name" />
        <fieldset ...${faultOf(fault, 'scopes')}>
          <legend>It may</legend>
          ${held.map(([scope, text]) => html`<label key=${scope} class="row scope"><input type="checkbox" name="scopes" value=${scope} /> <code>${scope}</code> <span class="faint">${text}</span></label>`)}
          <${FieldFault} of=${fault} param="scopes" />
        </fieldset>
        <label for="key-expires">It ends <span class="faint">(optional, in your time zone)</span></label>
        <input id="key-expires" name="expires" type="datetime-local" defaultValue=${own?.expires ? toLocalField(own.expires) : ''} ...${faultOf(fault, 'expires')} />
        <${FieldFault} of=${fault} param="expires" />
        <${LimitFields} own=${own} fault=${fault} />
        <label for="key-models">Models <span class="faint">(optional)</span></label>
        <textarea id="key-models" name="models" rows="2" spellcheck=${false} ...${faultOf(fault, 'models', 'key-models-help')}>${own?.models?.join('\n') ?? ''}</textarea>
        <p id="key-models-help" class="help">Ids of models, each in a line; <code>local/*</code> is every id that begins with local/. Left empty: all that the account may use.</p>
        <${FieldFault} of=${fault} param="models" />
        ${fault && !isOfField(fault) && html`<p class="fault" role="alert">${sentenceOf(fault)}</p>`}
        <p class="row">
          <button type="submit" class="main" disabled=${isRunning.value}>${isRunning.value ? 'Making …' : 'Make the key'}</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </p>
      </form>
    <//>
  `
}

function LimitFields({ own, fault }: { readonly own: Key | undefined; readonly fault: Failure | undefined }): VNode {
  const held = own?.limits ?? {}
  return html`
    <details open=${Object.keys(held).length > 0}>
      <summary>Limits of its own <span class="faint">(optional)</span></summary>
      <p class="help">They hold beside the account's. Left empty: no limit of its own.</p>
      <div class="limit-fields">
        ${limitNames.map((limit) => {
          const id = `key-limit-${limit}`
          const param = `limits.${limit}`
          return html`<div key=${limit}>
            <label for=${id}>${titleOf(limit)}${isInBytes(limit) && ' (bytes)'}</label>
            <input id=${id} name=${param} type="number" min="0" max=${held[limit]} step="1" defaultValue=${held[limit] ?? ''} required=${held[limit] !== undefined} ...${faultOf(fault, param)} />
            <${FieldFault} of=${fault} param=${param} />
          </div>`
        })}
      </div>
    </details>
  `
}

function FieldFault({ of: fault, param }: { readonly of: Failure | undefined; readonly param: string }): VNode | null {
  if (!fault || fault.param !== param) return null
  const { value: key } = identity
  // The message of the service has the time in Unix seconds, so the page writes a different message.
  const isTooLate = param === 'expires' && fault.code === 'exceeds_your_key' && key?.expires != null
  const text = isTooLate
    ? `Your key ends on ${formatMoment(key.expires)}, and the new one must not end later.`
    : fault.message
  return html`<p id=${faultId(param)} class="fault" role="alert">${text}</p>`
}

/** The ARIA attributes of a field. @param help the id of the field's help, if there is one */
function faultOf(fault: Failure | undefined, param: string, help?: string): Readonly<Record<string, string>> {
  if (fault?.param === param) {
    const tabindex: Readonly<Record<string, string>> = param === 'scopes' ? { tabindex: '-1' } : {}
    return { 'aria-invalid': 'true', 'aria-describedby': faultId(param), ...tabindex }
  }
  return help === undefined ? {} : { 'aria-describedby': help }
}

function faultId(param: string): string {
  return `key-fault-${param}`
}

function sentenceOf({ status, message }: Failure): string {
  if (status !== 0) return message
  return `${message} It may have been made all the same: look at the list afterwards, and revoke what you do not know.`
}

function isOfField({ param = '' }: Failure): boolean {
  return ['name', 'scopes', 'expires', 'models', ...limitNames.map((limit) => `limits.${limit}`)].includes(param)
}

function mayGive(scope: Scope): boolean {
  const scopes = identity.value?.scopes ?? []
  return scopes.includes('admin') || scopes.includes(scope)
}

function requestOf(form: FormData): KeyRequest {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  const limits = limitNames.flatMap((limit) => {
    const value = text(`limits.${limit}`)
    return value === '' ? [] : [[limit, Number(value)] as const]
  })
  const chosen = form.getAll('scopes')
  const models = text('models')
    .split('\n')
    .map((model) => model.trim())
    .filter((model) => model !== '')
  return {
    name: text('name') || null,
    scopes: scopeTexts.map(([scope]) => scope).filter((scope) => chosen.includes(scope)),
    expires: text('expires') === '' ? null : Math.floor(new Date(text('expires')).getTime() / 1000),
    limits: Object.fromEntries(limits),
    models: models.length === 0 ? null : models,
  }
}

/** A moment for a field of the type `datetime-local`, in the reader's time zone, without seconds. */
function toLocalField(unixSeconds: number): string {
  const moment = new Date(unixSeconds * 1000)
  const local = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 16)
}
