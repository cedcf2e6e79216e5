import { effect, signal } from '@preact/signals'
import { type Asking, getJson } from '../base/api.ts'
import { characterPath } from '../base/character-path.ts'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'
import type { Summary } from './character.ts'
import { loadLibrary, ownOf, refresh } from './library.ts'

/** A file on its way to become a character. */
export interface Import {
  readonly id: number
  readonly file: File
  readonly stage: 'waiting' | 'checking' | 'checked' | 'importing' | 'imported'
  /** What fraction of the file has been sent in this stage. */
  readonly sent: number
  /** What the service makes of it, once it has been asked. */
  readonly summary?: Summary
  /** The name that it is to have. */
  readonly name: string
  /** Why the stage has come to nothing. */
  readonly failure?: Failure
}

/** All files that were dropped or chosen, until they are put away: another view changes nothing of them. */
export const imports = signal<readonly Import[]>([])

let count = 0
/** What is sent, by the import's id, for whoever puts it away meanwhile. */
const sending = new Map<number, AbortController>()
/** One file at a time is sent: the rest would only make each slower. */
let queue: Promise<void> = Promise.resolve()

// Files of one account are nothing to the next.
effect(() => {
  if (identity.value === null) for (const { id } of imports.peek()) putAway(id)
})

/** Takes files, and asks the service what each is; nothing of them is kept by that. */
export function addFiles(files: Iterable<File>): void {
  for (const file of files) {
    count += 1
    const added: Import = { id: count, file, stage: 'waiting', sent: 0, name: '' }
    imports.value = [...imports.value, added]
    checkAgain(added.id)
  }
}

/** Asks once more what a file is. */
export function checkAgain(id: number): void {
  inTurn(id, 'waiting', check)
}

/** Says under which name a file is to be imported. */
export function rename(id: number, name: string): void {
  change(id, { name })
}

/** Imports a file: the character that has its name already is replaced. */
export function importFile(id: number): void {
  inTurn(id, 'importing', store)
}

/** Imports all files that replace nothing. */
export function importNew(): void {
  for (const each of imports.value) if (isReady(each) && !ownOf(each.name)) importFile(each.id)
}

/** Whether a file waits for the word to import it. */
export function isReady({ stage, failure }: Import): boolean {
  return stage === 'checked' && !failure
}

/** Puts a file away, and ends what is done with it. */
export function putAway(id: number): void {
  imports.value = imports.value.filter((each) => each.id !== id)
  sending.get(id)?.abort()
}

/** Puts away what has become a character. */
export function putAwayImported(): void {
  imports.value = imports.value.filter(({ stage }) => stage !== 'imported')
}

type Step = (item: Import, signal: AbortSignal) => Promise<Partial<Import>>

/** @param stage what the file is in as long as it waits for its turn */
function inTurn(id: number, stage: Import['stage'], step: Step): void {
  change(id, { stage, sent: 0 })
  queue = queue.then(async () => {
    const item = imports.value.find((each) => each.id === id)
    if (!item) return
    const leaving = new AbortController()
    sending.set(id, leaving)
    try {
      change(id, await step(item, leaving.signal))
    } catch (error) {
      change(id, { stage: item.summary ? 'checked' : 'waiting', failure: inWords(Failure.of(error)) })
    } finally {
      sending.delete(id)
    }
  })
}

function inWords(failure: Failure): Failure {
  if (failure.status !== 413) return failure
  const message =
    'This file is larger than the service takes; its operator sets how large a card may be. Send a smaller one.'
  return new Failure(413, failure.code, message)
}

async function check({ id, file }: Import, signal: AbortSignal): Promise<Partial<Import>> {
  change(id, { stage: 'checking' })
  await readable(file)
  const summary = await getJson<Summary>('characters?dry_run=true', { ...sent(id, file, signal), method: 'POST' })
  // Whether a name is taken is known by the list.
  await loadLibrary()
  return { stage: 'checked', summary, name: summary.name }
}

async function store({ id, file, name, summary }: Import, signal: AbortSignal): Promise<Partial<Import>> {
  await readable(file)
  const isNew = name === summary?.name && !ownOf(name)
  const method = isNew ? 'POST' : 'PUT'
  try {
    const stored = await getJson<Summary>(isNew ? 'characters' : characterPath(name), {
      ...sent(id, file, signal),
      method,
    })
    await refresh(stored.name).catch(() => {})
    return { stage: 'imported', summary: stored, name: stored.name }
  } catch (error) {
    // Somebody else has added it meanwhile: with that in the list, the reader is asked whether to replace it.
    if (Failure.of(error).status === 409) await refresh(name).catch(() => {})
    if (isNew && ownOf(name)) return { stage: 'checked' }
    throw error
  }
}

/** @throws Failure for what the browser cannot read, which would look as if the service did not answer */
async function readable(file: File): Promise<void> {
  try {
    await file.slice(0, 1).arrayBuffer()
  } catch {
    const message = 'This cannot be read: it is a folder, or it has been moved or changed since. Choose the file again.'
    throw new Failure(0, 'unreadable', message)
  }
  if (file.size === 0) throw new Failure(0, 'empty', 'This file is empty. Choose another one.')
}

function sent(id: number, file: File, signal: AbortSignal): Asking {
  const headers = { 'content-type': 'application/octet-stream' }
  return { body: file, headers, signal, onSent: (fraction) => change(id, { sent: fraction }) }
}

/** Changes an import; why it failed before is of no interest any more. */
function change(id: number, changes: Partial<Import>): void {
  imports.value = imports.value.map((each) => {
    if (each.id !== id) return each
    const { failure: _before, ...kept } = each
    return { ...kept, ...changes }
  })
}
