import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { ask } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import { Dialog } from '../ui/dialog.ts'
import { Question } from '../ui/work.ts'
import { remove, said } from './list.ts'
import { type Plant, quoted } from './plant.ts'

interface DetailsProps {
  readonly plant: Plant
  readonly mayDelete: boolean
  readonly onDelete: () => void
  readonly onTag: (tag: string) => void
  readonly onClose: () => void
}

/** Shows the whole name and tag of a plant, because they may be too long for a row of the table. */
export function Details({ plant, mayDelete, onDelete, onTag, onClose }: DetailsProps): VNode {
  const { name, tag, id } = plant
  return html`
    <${Dialog} title="Plant" class="plant" width="32rem" onClose=${onClose}>
      <dl class="pairs">
        <dt>Name</dt><dd dir="auto">${name}</dd>
        <dt>Tag</dt><dd>${tag === undefined ? html`<span class="faint">none</span>` : html`<button type="button" class="tag one-line" dir="auto" onClick=${() => onTag(tag)}>${tag}</button>`}</dd>
        <dt>${id === undefined ? 'Shared' : 'Id'}</dt><dd>${id === undefined ? 'It belongs to another account, which lets yours read it.' : id}</dd>
      </dl>
      ${id !== undefined && mayDelete && html`<p class="row"><button type="button" class="danger" onClick=${onDelete}>Delete this plant …</button></p>`}
    <//>
  `
}

interface DeletionProps {
  readonly plant: Plant
  readonly onDone: () => void
  readonly onClose: () => void
}

/** Asks for confirmation, and deletes the plant. */
export function Deletion({ plant, onDone, onClose }: DeletionProps): VNode {
  const remove = async () => {
    if (plant.id !== undefined) said.value = await deletePlant(plant.id, plant.name)
  }
  return html`
    <${Question} title="Delete this plant?" verb="Delete" class="plant" width="32rem" work=${remove} onDone=${onDone} onClose=${onClose}>
      <p><bdi class="long">${name(plant)}</bdi> is gone for good then: there is no way to bring it back.</p>
    <//>
  `
}

function name({ name, tag }: Plant): string {
  return tag === undefined ? name : `${name} (${tag})`
}

/** Deletes a plant. If the plant was already deleted, this is not a failure. @returns a sentence for the reader */
async function deletePlant(id: number, name: string): Promise<string> {
  const wasThere = await ask(`plants/${id}`, { method: 'DELETE' }).then(
    () => true,
    (error: unknown) => {
      if (Failure.of(error).status === 404) return false
      throw error
    },
  )
  remove(id)
  return wasThere ? `${quoted(name)} is deleted.` : `${quoted(name)}, id ${id}, was deleted already.`
}
