import { effect, signal } from '@preact/signals'
import { addressOf } from '../base/route.ts'
import { identity } from '../base/session.ts'
import { type Keeping, keep, restore } from './kept-talks.ts'
import { Talk } from './talk.ts'

/** The conversations of this tab, by the name of the character. */
const talks = new Map<string, Talk>()
/** For each conversation, the function that ends its storing. */
const ends = new Map<Talk, () => void>()

/** The shown conversation. */
export const current = signal<Talk | undefined>(undefined)

/** Whether each conversation is stored. A conversation is missing until the first attempt to store it. */
export const keeping = signal<ReadonlyMap<Talk, Keeping>>(new Map())

/** The last action that can be undone. */
export const undoable = signal<{ readonly said: string; readonly undo: () => void } | undefined>(undefined)

const storedCurrent = 'conservatory-chat-current'
/** Milliseconds between a change and storing it. */
const saveDelayMs = 400
/** Milliseconds between two saves of a conversation during a streamed reply. */
const saveDelayDuringReplyMs = 3000

let account = identity.value?.account ?? ''

effect(() => {
  const who = identity.value
  // After a key has expired, the reader may sign in with another key of the same account. So the conversations stay.
  if (who === undefined || (who === null && sessionStorage.length > 0) || who?.account === account) return
  account = who?.account ?? ''
  forgetAll()
})

addEventListener('pagehide', () => {
  for (const talk of talks.values()) save(talk)
})

/** Shows the conversation with a character: the open one, the stored one, or a new one. */
export function open(name: string): void {
  const talk = talks.get(name) ?? take(restore(name, account) ?? new Talk(name))
  show(talk)
}

/** Goes to the last shown conversation of this tab. @returns whether there is such a conversation */
export function openLast(): boolean {
  const name = current.value?.name ?? sessionStorage.getItem(storedCurrent)
  if (name !== null) location.replace(addressOf('chat', name))
  return name !== null
}

/** Hides the conversation. All conversations continue. */
export function leave(): void {
  current.value = undefined
}

/** Replaces a conversation by another one with the same character, and shows it. This can be undone. */
export function replace(former: Talk, next: Talk, said: string): void {
  former.run.value?.stop()
  take(next)
  show(next)
  undoable.value = {
    said,
    undo: () => {
      take(former)
      show(former)
    },
  }
}

/** Deletes the last message. This can be undone. */
export function deleteLast(talk: Talk): void {
  const { value: before } = talk.messages
  if (talk.run.value) return
  talk.messages.value = before.slice(0, -1)
  const undo = () => {
    talk.messages.value = before
  }
  undoable.value = { said: 'The message is deleted.', undo }
}

function show(talk: Talk): void {
  undoable.value = undefined
  current.value = talk
  sessionStorage.setItem(storedCurrent, talk.name)
  void talk.loadCharacter()
}

/** Makes a conversation the only one with its character, and stores it after each change. */
function take(talk: Talk): Talk {
  const former = talks.get(talk.name)
  if (former) ends.get(former)?.()
  talks.set(talk.name, talk)
  let timer: ReturnType<typeof setTimeout> | undefined
  const saveLater = (wait: number) => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      save(talk)
      if (talk.run.value) saveLater(saveDelayDuringReplyMs)
    }, wait)
  }
  const end = effect(() => {
    void [talk.messages.value, talk.draft.value, talk.run.value]
    saveLater(saveDelayMs)
  })
  ends.set(talk, () => {
    clearTimeout(timer)
    end()
    ends.delete(talk)
  })
  return talk
}

function save(talk: Talk): void {
  const result = keep(talk, account)
  if (keeping.value.get(talk) !== result) keeping.value = new Map(keeping.value).set(talk, result)
}

function forgetAll(): void {
  for (const talk of talks.values()) {
    ends.get(talk)?.()
    talk.run.value?.stop()
  }
  talks.clear()
  for (const name of Object.keys(sessionStorage)) {
    if (name.startsWith('conservatory-chat')) sessionStorage.removeItem(name)
  }
  current.value = undefined
  undoable.value = undefined
  keeping.value = new Map()
}
