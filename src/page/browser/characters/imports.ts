import { effect, signal } from '@preact/signals'
import { getJson, type RequestOptions } from '../base/api.ts'
import { characterPath, loadLibrary, ownOf, refresh } from '../base/characters.ts'
import { Failure } from '../base/failure.ts'
import { identity } from '../base/session.ts'
import type { Summary } from './character.ts'

/** A file that is being imported as a character. */
export interface Import {
  readonly id: number
  readonly file: File
  readonly stage: 'waiting' | 'checking' | 'checked' | 'importing' | 'imported'
  /** The fraction of the file that has been sent in this stage. */
  readonly sent: number
  /** The service's summary of the card, after the check. */
  readonly summary?: Summary
  /** The name for the character, as it is typed. */
  readonly name: string
  /** The reason why the stage failed. */
  readonly failure?: Failure
}

/** All files that were dropped or chosen, until they are put away. They stay while other views are shown. */
export const imports = signal<readonly Import[]>([])

let count = 0
/** Running uploads by the id of the import. If a file is put away, its upload is aborted. */
const sending = new Map<number, AbortController>()
/** Files are sent one at a time, because parallel uploads would only slow each other down. */
let queue: Promise<void> = Promise.resolve()

// The next account in this tab must not see the files.
effect(() => {
  if (identity.value === null) for (const { id } of imports.peek()) putAway(id)
})

/** Adds files. The service checks each file without storing it. */
export function addFiles(files: Iterable<File>): void {
  for (const file of files) {
    count += 1
    const added: Import = { id: count, file, stage: 'waiting', sent: 0, name: '' }
    imports.value = [...imports.value, added]
    checkAgain(added.id)
  }
}

/** Checks a file again. */
export function checkAgain(id: number): void {
  inTurn(id, 'waiting', check)
}

/** Sets the name for the character of a file. */
export function rename(id: number, name: string): void {
  change(id, { name })
}

/** Imports a file. It replaces a character of the same name. */
export function importFile(id: number): void {
  const item = imports.value.find((each) => each.id === id)
  const mayReplace = item !== undefined && ownOf(nameOf(item)) !== undefined
  inTurn(id, 'importing', (each, signal) => store(each, signal, mayReplace))
}

/** Imports all files that are new. */
export function importNew(): void {
  for (const each of imports.value) if (isNew(each)) importFile(each.id)
}

/** Whether a file is checked and has a name, and importing it would not replace a character of the account. */
export function isNew(item: Import): boolean {
  const name = nameOf(item)
  return item.stage === 'checked' && !item.failure && name !== '' && !ownOf(name)
}

/** The name under which the service would store a file. The service trims the typed name. */
export function nameOf({ name }: Import): string {
  return name.trim()
}

/** Removes a file from the list, and aborts its upload. */
export function putAway(id: number): void {
  imports.value = imports.value.filter((each) => each.id !== id)
  sending.get(id)?.abort()
}

/** Removes all imported files from the list. */
export function putAwayImported(): void {
  imports.value = imports.value.filter(({ stage }) => stage !== 'imported')
}

type Step = (item: Import, signal: AbortSignal) => Promise<Partial<Import>>

/** Runs a step for a file after all steps that are already waiting. @param stage the stage of the file while it waits */
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
  // The loaded list shows whether the name is taken.
  await loadLibrary()
  return { stage: 'checked', summary, name: summary.name }
}

/** Imports a file. @param mayReplace whether the reader has agreed that the file replaces the character of the same name */
async function store(item: Import, signal: AbortSignal, mayReplace: boolean): Promise<Partial<Import>> {
  const { id, file, summary } = item
  const name = nameOf(item)
  // Another file of the list may have taken the name after the click. Then the reader is asked first.
  if (!mayReplace && ownOf(name)) return { stage: 'checked' }
  await readable(file)
  const isAddition = name === summary?.name && !ownOf(name)
  const method = isAddition ? 'POST' : 'PUT'
  try {
    const stored = await getJson<Summary>(isAddition ? 'characters' : characterPath(name), {
      ...sent(id, file, signal),
      method,
    })
    await refresh(stored.name).catch(() => {})
    return { stage: 'imported', summary: stored, name: stored.name }
  } catch (error) {
    // The name has been taken since the check. After the refresh, the reader is asked whether to replace the character.
    if (Failure.of(error).status === 409) await refresh(name).catch(() => {})
    if (isAddition && ownOf(name)) return { stage: 'checked' }
    throw error
  }
}

/**
 * @throws Failure for an empty or unreadable file. Otherwise the upload of an unreadable file would report that the service does
 * not answer
 */
async function readable(file: File): Promise<void> {
  try {
    await file.slice(0, 1).arrayBuffer()
  } catch {
    const message = 'This cannot be read: it is a folder, or it has been moved or changed since. Choose the file again.'
    throw new Failure(0, 'unreadable', message)
  }
  if (file.size === 0) throw new Failure(0, 'empty', 'This file is empty. Choose another one.')
}

function sent(id: number, file: File, signal: AbortSignal): RequestOptions {
  const headers = { 'content-type': 'application/octet-stream' }
  return { body: file, headers, signal, onSent: (fraction) => change(id, { sent: fraction }) }
}

/** Changes an import, and clears its last failure. */
function change(id: number, changes: Partial<Import>): void {
  imports.value = imports.value.map((each) => {
    if (each.id !== id) return each
    const { failure: _before, ...kept } = each
    return { ...kept, ...changes }
  })
}
