import { useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { save } from '../ui/copy.ts'
import { formatBytes, formatNumber } from '../ui/format.ts'
import { sayDone } from '../ui/notices.ts'
import { readJsonl, toJsonl } from './jsonl.ts'
import type { Message } from './messages.ts'
import { settings } from './settings.ts'
import { Talk } from './talk.ts'
import { replace } from './talks.ts'

const maxBytes = 32_000_000

/** The export and import of a conversation. */
export function TransferButtons({ talk, onDone }: { readonly talk: Talk; readonly onDone: () => void }): VNode {
  const file = useRef<HTMLInputElement>(null)
  const fault = useSignal('')
  const take = async () => {
    const chosen = file.current?.files?.[0]
    if (!chosen) return
    fault.value = ''
    try {
      await importFile(talk, chosen)
      onDone()
    } catch (error) {
      fault.value = error instanceof Error ? error.message : String(error)
      if (file.current) file.current.value = ''
    }
  }
  return html`
    <p class="row">
      <button type="button" onClick=${() => exportTalk(talk)}>Export</button>
      <button type="button" onClick=${() => file.current?.click()}>Import</button>
      <input ref=${file} type="file" accept=".jsonl,application/jsonl,application/x-ndjson" hidden aria-label="Conversation to import" onChange=${take} />
    </p>
    <p class="help">A file that SillyTavern reads too. What is imported takes the place of this conversation.</p>
    ${fault.value && html`<p role="alert" class="fault">${fault.value}</p>`}
  `
}

function exportTalk(talk: Talk): void {
  const { name, created, messagesSoFar } = talk
  const text = toJsonl(messagesSoFar, { name, created, userName: settings.value.userName })
  const day = new Date().toISOString().slice(0, 10)
  const plain = name.replaceAll(/[^\p{L}\p{N} _-]/gu, '_').slice(0, 80)
  save(new Blob([text], { type: 'application/jsonl' }), `${plain} ${day}.jsonl`)
}

/** @throws Error if the file is too large, or is not a conversation */
async function importFile(talk: Talk, file: File): Promise<void> {
  if (file.size > maxBytes) {
    throw new Error(`This file is larger than ${formatBytes(maxBytes)}, which is the most that is imported.`)
  }
  const { characterName, messages, skipped } = await readJsonl(await file.text())
  const next = new Talk(talk.name, { messages: withGreetings(messages, talk) })
  const isOther = characterName !== '' && characterName !== talk.name
  replace(talk, next, `${formatNumber(messages.length)} messages were imported.`)
  if (isOther) sayDone(`The file is a conversation with ${characterName}. ${talk.name} goes on with it.`)
  if (skipped > 0) sayDone(`${formatNumber(skipped)} lines of the file are no messages, and were left out.`)
}

/** Marks the first message if it is a greeting of the card. The service then writes this greeting with the user's name. */
function withGreetings(messages: readonly Message[], { character }: Talk): readonly Message[] {
  const [first, ...rest] = messages
  const { value: known } = character
  if (!first?.isOpening || !known || !('greetings' in known)) return messages
  const swipes = first.swipes.map((swipe) => {
    const greeting = known.greetings.find(({ text }) => text === swipe.text)?.index
    return greeting === undefined ? swipe : { ...swipe, greeting }
  })
  return [{ ...first, swipes }, ...rest]
}
