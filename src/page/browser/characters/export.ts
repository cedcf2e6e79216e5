import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ask } from '../base/api.ts'
import { characterPath } from '../base/characters.ts'
import { save } from '../ui/copy.ts'
import { sayDone, sayFailure } from '../ui/notices.ts'

const formats = {
  json: { title: 'JSON (V3)', extension: 'json' },
  v2: { title: 'JSON (V2)', extension: 'json' },
  png: { title: 'PNG', extension: 'png' },
  charx: { title: 'CHARX', extension: 'charx' },
}
type Format = keyof typeof formats

function isFormat(text: string): text is Format {
  return Object.hasOwn(formats, text)
}

/** A menu of file formats, and a button that saves the character's card in the chosen format. */
export function Export({ name }: { readonly name: string }): VNode {
  const format = useSignal<Format>('json')
  const isBusy = useSignal(false)
  const choose = ({ currentTarget }: Event) => {
    if (currentTarget instanceof HTMLSelectElement && isFormat(currentTarget.value)) format.value = currentTarget.value
  }
  const run = async () => {
    isBusy.value = true
    try {
      await exportCard(name, format.value)
    } catch (error) {
      sayFailure(error)
    } finally {
      isBusy.value = false
    }
  }
  return html`
    <span class="export" role="group" aria-label="Export">
      <select class="short" aria-label="Format" value=${format.value} onChange=${choose}>
        ${Object.entries(formats).map(([key, { title }]) => html`<option key=${key} value=${key}>${title}</option>`)}
      </select>
      <button type="button" disabled=${isBusy.value} onClick=${run}>${isBusy.value ? 'Exporting …' : 'Export'}</button>
    </span>
  `
}

async function exportCard(name: string, format: Format): Promise<void> {
  const reply = await ask(`${characterPath(name)}?format=${format}`)
  save(await reply.blob(), fileName(name, formats[format].extension))
  const losses = reply.headers.get('x-export-losses')
  sayDone(`Saved.${losses === null ? '' : ` ${losses}`}`)
}

/** A file name without characters that some systems refuse. */
function fileName(name: string, extension: string): string {
  const safe = name.replaceAll(/[\p{C}/\\:*?"<>|]+/gu, '_').slice(0, 100)
  return `${safe.replace(/^\.+/, '_')}.${extension}`
}
