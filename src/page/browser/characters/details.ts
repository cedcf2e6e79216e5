import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ask } from '../base/api.ts'
import { characterPath, listedOf, refresh } from '../base/characters.ts'
import { ownValue } from '../base/own-value.ts'
import { addressOf, goTo } from '../base/route.ts'
import { may } from '../base/session.ts'
import { copy } from '../ui/copy.ts'
import { formatMoment, formatNumber } from '../ui/format.ts'
import { useLoading, Waiting } from '../ui/loading.ts'
import { clip, LongText } from '../ui/long-text.ts'
import { sayDone, sayFailure } from '../ui/notices.ts'
import { Portrait } from '../ui/portrait.ts'
import { Question } from '../ui/work.ts'
import { type Details, detailsOf, origins } from './character.ts'
import { Export } from './export.ts'
import { Findings } from './findings.ts'
import { search } from './gallery.ts'
import { Pane } from './pane.ts'

/** The details of one character, with its actions. */
export function CharacterPane({ name }: { readonly name: string }): VNode {
  // The details are loaded again when the digest changes, because a replaced card has another digest.
  const loading = useLoading((signal) => detailsOf(name, signal), [name, listedOf(name)?.digest])
  const details = loading.value
  return html`
    <${Pane} title=${clip(name, 200)}>
      ${
        details
          ? html`
            <${Head} details=${details} />
            <${Actions} details=${details} />
            <${Greetings} greetings=${details.greetings} />
            ${details.creator_notes.trim() !== '' && html`<section><h3>Notes of its creator</h3><${LongText} text=${details.creator_notes} what="the notes" /></section>`}
            <section>
              <h3>What the service makes of the card</h3>
              ${details.card === undefined ? html`<p>The card is the operator’s own: only keys with the scope “admin” see its texts and what is ignored of them.</p>` : html`<${Findings} of=${details} />`}
              <${Facts} details=${details} />
            </section>
          `
          : html`<${Waiting} loading=${loading} what="the character" />`
      }
    <//>
  `
}

function Head({ details }: { readonly details: Details }): VNode {
  const { name, digest, has_avatar: hasPicture = false, origin, creator, character_version: version, tags } = details
  const find = (tag: string) => {
    search.value = tag
    goTo('characters')
  }
  return html`
    <div class="who-it-is">
      <${Portrait} name=${name} digest=${digest} hasPicture=${hasPicture} />
      <div>
        <p>
          <span class="tag origin">${origins[origin]}</span>
          ${creator && html` by <bdi>${clip(creator)}</bdi>`}${version && html`, version <bdi>${clip(version, 40)}</bdi>`}
        </p>
        ${
          tags.length > 0 &&
          html`<ul class="bare tags" aria-label="Tags">${tags.map((tag) => html`<li><button type="button" class="tag" dir="auto" title="Find others with this tag" onClick=${() => find(tag.slice(0, 200))}>${clip(tag, 60)}</button></li>`)}</ul>`
        }
      </div>
    </div>
  `
}

function Actions({ details }: { readonly details: Details }): VNode {
  const isAsking = useSignal(false)
  const { name, origin, card } = details
  return html`
    <div class="row actions">
      ${
        may('chat') &&
        html`
          <a class="button main" href=${addressOf('chat', name)}>Chat with <bdi>${clip(name, 40)}</bdi></a>
          <a class="button" href=${addressOf('characters', name, 'prompt')}>What a model is told</a>
        `
      }
      ${card !== undefined && html`<${Export} name=${name} />`}
      ${origin === 'account' && may('characters:write') && html`<button type="button" class="danger" onClick=${() => (isAsking.value = true)}>Delete …</button>`}
      ${isAsking.value && html`<${DeleteDialog} name=${name} onClose=${() => (isAsking.value = false)} />`}
    </div>
  `
}

function DeleteDialog({ name, onClose }: { readonly name: string; readonly onClose: () => void }): VNode {
  const remove = async () => {
    await ask(characterPath(name), { method: 'DELETE' })
    sayDone(`“${clip(name)}” is deleted.`)
    goTo('characters')
    await refresh(name).catch(sayFailure)
  }
  return html`
    <${Question} title=${`Delete “${clip(name, 60)}”?`} verb="Delete" width="28rem" work=${remove} onDone=${onClose} onClose=${onClose}>
      <p>It goes with all its versions, for every key of your account. Export it first if you have no copy.</p>
    <//>
  `
}

/** The number of greetings that are shown at first, and that each click on the button adds. */
const portion = 20

function Greetings({ greetings }: { readonly greetings: Details['greetings'] }): VNode {
  const count = useSignal(portion)
  const left = greetings.length - count.value
  return html`
    <section>
      <h3>${greetings.length === 0 ? 'No greeting' : greetings.length === 1 ? 'Greeting' : `${formatNumber(greetings.length)} greetings`}</h3>
      ${greetings.slice(0, count.value).map(
        ({ index, text }) => html`
          <details key=${index} class="panel greeting" open=${index === greetings[0]?.index}>
            <summary class="one-line">${index === 0 ? 'The first message' : `Alternate greeting ${index}`} <span class="faint" dir="auto">${clip(text, 80)}</span></summary>
            <${LongText} text=${text} what="the greeting" />
          </details>
        `,
      )}
      ${left > 0 && html`<p><button type="button" onClick=${() => (count.value += portion)}>Show more of ${formatNumber(left)}</button></p>`}
    </section>
  `
}

const specs: Readonly<Record<string, string>> = {
  chara_card_v1: 'V1',
  chara_card_v2: 'V2',
  chara_card_v3: 'V3',
}

/** The figures of a card, and its pinned name. */
export function Facts({ details }: { readonly details: Omit<Details, 'greetings'> }): VNode {
  const { name, digest, spec, lore_entries: lore, regexes, remote_assets: remote, model, created, updated } = details
  const rows: readonly (readonly [title: string, value: unknown])[] = [
    ['Card', ownValue(specs, spec) ?? clip(spec, 40)],
    ['Lore entries', formatNumber(lore)],
    ['Regular expressions', formatNumber(regexes)],
    ['Own system prompt', details.has_system_prompt ? 'yes' : 'no'],
    ['Asks for the model', model === null ? 'none' : html`<bdi>${clip(model)}</bdi>`],
    ['Assets on the web', remote === 0 ? 'none' : `${formatNumber(remote)}, never fetched`],
    ...(created === undefined ? [] : [['Uploaded', formatMoment(created)] as const]),
    ...(updated === undefined || updated === created ? [] : [['Replaced', formatMoment(updated)] as const]),
  ]
  return html`
    <dl class="facts">${rows.map(([title, value]) => html`<div key=${title}><dt>${title}</dt><dd>${value}</dd></div>`)}</dl>
    <p class="faint pinned">
      <code>${digest}</code>
      ${' '}<button type="button" class="quiet" onClick=${() => copy(`${name}@${digest}`, 'The name of this very version')}>Copy the pinned name</button>
    </p>
  `
}
