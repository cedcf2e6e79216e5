import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { listedOf, ownOf } from '../base/characters.ts'
import type { Failure } from '../base/failure.ts'
import { addressOf } from '../base/route.ts'
import { may } from '../base/session.ts'
import { textIn } from '../ui/field.ts'
import { formatBytes, formatMoment, formatNumber } from '../ui/format.ts'
import { clip } from '../ui/long-text.ts'
import type { Summary } from './character.ts'
import { isOver } from './dropping.ts'
import { Findings } from './findings.ts'
import {
  addFiles,
  checkAgain,
  type Import,
  importFile,
  importNew,
  imports,
  isNew,
  nameOf,
  putAway,
  putAwayImported,
  rename,
} from './imports.ts'
import { Pane } from './pane.ts'

/** The files that were dropped or chosen. Each file has its findings, and buttons to import it or to put it away. */
export function ImportPane(): VNode {
  const all = imports.value
  const ready = all.filter(isNew).length
  const hasImported = all.some(({ stage }) => stage === 'imported')
  return html`
    <${Pane} title="Import cards">
      <${DropPlace} />
      ${
        all.length > 1 &&
        html`
          <div class="row">
            ${ready > 1 && html`<button type="button" class="main" onClick=${importNew}>Import all ${formatNumber(ready)} that are new</button>`}
            ${hasImported && html`<button type="button" onClick=${putAwayImported}>Put away what is imported</button>`}
          </div>
        `
      }
      <ul class="bare imports" aria-label="Files">
        ${all.map((each) => html`<li key=${each.id}><${Item} item=${each} /></li>`)}
      </ul>
    <//>
  `
}

function DropPlace(): VNode {
  const input = useRef<HTMLInputElement>(null)
  const take = () => {
    const { current } = input
    if (!current?.files) return
    addFiles(current.files)
    // Without this line, the reader could not choose the same file again.
    current.value = ''
  }
  return html`
    <div class=${isOver.value ? 'empty drop-place over' : 'empty drop-place'}>
      <p>Drop cards here: PNG, JSON or CHARX. You see what each is before anything is kept.</p>
      <button type="button" class="main" onClick=${() => input.current?.click()}>Choose files</button>
      <input ref=${input} type="file" multiple hidden aria-label="Card files" accept=".png,.json,.charx,.zip,image/png,application/json" onChange=${take} />
    </div>
  `
}

function Item({ item }: { readonly item: Import }): VNode {
  const { file, failure, summary, stage } = item
  return html`
    <article class="panel import" aria-label=${clip(file.name)}>
      <div class="row spread head">
        <h3><bdi>${clip(file.name)}</bdi> <span class="faint">${formatBytes(file.size)}</span></h3>
        <button type="button" class="quiet" aria-label=${`Put away ${clip(file.name)}`} onClick=${() => putAway(item.id)}>✕</button>
      </div>
      <${Progress} item=${item} />
      ${
        failure &&
        html`
          <div role="alert">
            <p class="fault">${clip(failure.message, 600)}</p>
            ${!summary && html`<p class="row"><${WayOn} item=${item} failure=${failure} /></p>`}
          </div>
        `
      }
      ${summary && html`<${WhatItIs} summary=${summary} />`}
      ${summary && stage === 'checked' && html`<${Decision} item=${item} summary=${summary} />`}
      ${stage === 'imported' && html`<${Imported} name=${item.name} />`}
    </article>
  `
}

/** A file that the service refuses can only be put away. After any other failure, the reader can try the file again. */
function WayOn({ item, failure }: { readonly item: Import; readonly failure: Failure }): VNode {
  return [400, 413].includes(failure.status)
    ? html`<button type="button" onClick=${() => putAway(item.id)}>Put it away</button>`
    : html`<button type="button" onClick=${() => checkAgain(item.id)}>Try again</button>`
}

function Progress({ item: { stage, sent, file, failure } }: { readonly item: Import }): VNode | null {
  if (failure || stage === 'checked' || stage === 'imported') return null
  if (stage === 'waiting') return html`<p class="faint" role="status">Waits for its turn …</p>`
  const isSent = sent >= 1
  const purpose = stage === 'checking' ? 'The service reads it' : 'The service keeps it'
  return html`
    <div role="status">
      <progress aria-label=${`Sending ${clip(file.name)}`} max="1" value=${isSent ? undefined : sent}></progress>
      <p class="faint">${isSent ? `${purpose} …` : 'Sending …'}</p>
    </div>
  `
}

/** The name and the figures of a card in a line, and its findings. */
function WhatItIs({ summary }: { readonly summary: Summary }): VNode {
  const { name, spec, greetings, lore_entries: lore, regexes, remote_assets: remote, model } = summary
  const parts = [
    spec.replace('chara_card_v', 'Card V'),
    `${formatNumber(greetings)} ${greetings === 1 ? 'greeting' : 'greetings'}`,
    `${formatNumber(lore)} lore ${lore === 1 ? 'entry' : 'entries'}`,
    ...(regexes > 0 ? [`${formatNumber(regexes)} regular ${regexes === 1 ? 'expression' : 'expressions'}`] : []),
    ...(remote > 0 ? [`${formatNumber(remote)} assets on the web, never fetched`] : []),
    ...(summary.has_system_prompt ? ['a system prompt of its own'] : []),
    ...(model === null ? [] : [`asks for the model ${clip(model)}`]),
  ]
  return html`
    <p><strong class="name" dir="auto">${clip(name, 200)}</strong><br /><span class="faint">${parts.join(' · ')}</span></p>
    <${Findings} of=${summary} />
  `
}

function Decision({ item, summary }: { readonly item: Import; readonly summary: Summary }): VNode {
  const isRenaming = useSignal(false)
  const name = nameOf(item)
  const own = ownOf(name)
  const other = own ? undefined : listedOf(name)
  const nameField = `name-${item.id}`
  return html`
    ${
      own &&
      html`
        <p class="asks" role="status">
          ${own.digest === summary.digest ? 'You have exactly this card already.' : html`You have a character of this name already, since ${formatMoment(own.updated)}. Replace it? Its versions so far can still be pinned.`}
        </p>
      `
    }
    ${other && html`<p class="faint">It stands before the ${other.origin === 'folder' ? 'operator’s character' : 'starter'} of this name, for your account alone.</p>`}
    ${
      isRenaming.value &&
      html`
        <div class="renaming">
          <label for=${nameField}>Its name here</label>
          <input id=${nameField} value=${item.name} maxlength="200" dir="auto" onInput=${(event: Event) => rename(item.id, textIn(event))} />
        </div>
      `
    }
    <div class="row">
      ${
        own
          ? html`<button type="button" class="danger" onClick=${() => importFile(item.id)}>Replace <bdi>“${clip(name, 40)}”</bdi></button>`
          : html`<button type="button" class="main" disabled=${name === ''} onClick=${() => importFile(item.id)}>Import</button>`
      }
      ${!isRenaming.value && html`<button type="button" onClick=${() => (isRenaming.value = true)}>Under another name …</button>`}
      <button type="button" onClick=${() => putAway(item.id)}>Do not import</button>
    </div>
  `
}

function Imported({ name }: { readonly name: string }): VNode {
  return html`
    <div class="row" role="status">
      <span class="success"><span aria-hidden="true">✓</span> Imported</span>
      <a class="button" href=${addressOf('characters', name)}>Look at it</a>
      ${
        may('chat') &&
        html`
          <a class="button" href=${addressOf('characters', name, 'prompt')}>What a model is told</a>
          <a class="button" href=${addressOf('chat', name)}>Chat</a>
        `
      }
    </div>
  `
}
