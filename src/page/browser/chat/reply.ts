import { batch, effect, signal } from '@preact/signals'
import { ask } from '../base/api.ts'
import { Failure } from '../base/failure.ts'
import {
  type ChatRequest,
  type Ending,
  type Message,
  nextId,
  type Origin,
  type Swipe,
  shownSwipe,
  withMessage,
  withNewSwipe,
  withShownSwipe,
} from './messages.ts'
import { type Settings, settings } from './settings.ts'
import { type FinishReason, readStream } from './stream.ts'
import type { Talk } from './talk.ts'
import { undoable } from './talks.ts'

/** The number of replies that are being streamed, in all conversations. */
const runs = signal(0)

effect(() => {
  // The listener makes leaving the page slower. So it is set only while a reply is being streamed.
  if (runs.value > 0) addEventListener('beforeunload', askBeforeLeaving)
  else removeEventListener('beforeunload', askBeforeLeaving)
})

function askBeforeLeaving(event: Event): void {
  event.preventDefault()
}

/** Adds the user's message, and requests a reply. */
export function send(talk: Talk, text: string): void {
  if (talk.run.value || text.trim() === '') return
  const message = {
    id: nextId(talk.messages.value),
    role: 'user',
    swipes: [{ text, at: Date.now() }],
    shown: 0,
  } as const
  talk.messages.value = [...talk.messages.value, message]
  answer(talk)
}

/** Requests a reply to the last message. The last message must be a message of the user. */
export function answer(talk: Talk): void {
  if (talk.run.value) return
  const before = talk.messages.value
  const id = nextId(before)
  talk.messages.value = [...before, { id, role: 'assistant', swipes: [empty()], shown: 0 }]
  void run(talk, id, before)
}

/** Requests another text for the last reply, with another seed. An empty text is replaced. */
export function regenerate(talk: Talk): void {
  const last = talk.messages.value.at(-1)
  if (talk.run.value || last?.role !== 'assistant') return
  const hasText = shownSwipe(last).text !== ''
  const next = hasText ? withNewSwipe(last, empty()) : withShownSwipe(last, empty)
  talk.messages.value = withMessage(talk.messages.value, last.id, () => next)
  void run(talk, last.id, talk.messages.value.slice(0, -1), anySeed())
}

/** Lets the model continue the last reply from its end. */
export function continueReply(talk: Talk): void {
  const last = talk.messages.value.at(-1)
  if (talk.run.value || last?.role !== 'assistant') return
  const asked = talk.messages.value
  const clean = (swipe: Swipe): Swipe => ({
    text: swipe.text,
    at: swipe.at,
    ...(swipe.origin && { origin: swipe.origin }),
  })
  talk.messages.value = withMessage(asked, last.id, (message) => withShownSwipe(message, clean))
  void run(talk, last.id, asked)
}

/** Sends the conversation again, up to a message of the user. All later messages are removed. */
export function sendAgain(talk: Talk, id: number): void {
  if (talk.run.value) return
  const place = talk.messages.value.findIndex((message) => message.id === id)
  talk.messages.value = talk.messages.value.slice(0, place + 1)
  answer(talk)
}

function empty(): Swipe {
  return { text: '', at: Date.now() }
}

/** Requests a reply, and appends it to the text of the message. @param asked the messages for the model */
async function run(talk: Talk, messageId: number, asked: readonly Message[], seed?: number): Promise<void> {
  const request = requestFor(talk, asked, settings.value, seed)
  const message = talk.messages.value.find(({ id }) => id === messageId)
  const text = new StreamedText(message ? shownSwipe(message).text : '')
  const start = text.whole.length
  const controller = new AbortController()
  let origin: Origin = { request, requestId: null, character: null, model: null }
  batch(() => {
    runs.value++
    // The last action can no longer be undone, because undoing it would remove the new reply.
    undoable.value = undefined
    talk.announcement.value = `${talk.name} is answering.`
    talk.run.value = { messageId, text: text.shown, textSoFar: () => text.whole, stop: () => controller.abort() }
  })
  const ending = await (async () => {
    try {
      const reply = await ask('chat/completions', { method: 'POST', json: request, signal: controller.signal })
      origin = { request, ...toldBy(reply) }
      return endingOf(await readStream(reply, (more) => text.add(more)), text.whole.slice(start).trim() !== '')
    } catch (error) {
      return endingBy(error)
    }
  })()
  const swipe: Swipe = { text: text.whole, at: Date.now(), origin, ...(ending && { ending }) }
  batch(() => {
    talk.messages.value = withMessage(talk.messages.value, messageId, (kept) => withShownSwipe(kept, () => swipe))
    talk.run.value = undefined
    // Only the beginning is announced, because most screen readers cannot be stopped during an announcement.
    const added = text.whole.slice(start, start + 2000)
    talk.announcement.value = `${talk.name}: ${added || ending?.message}`
    runs.value--
  })
}

function toldBy({ headers }: Response): Omit<Origin, 'request'> {
  const model = headers.get('x-model')
  return {
    requestId: headers.get('x-request-id'),
    character: headers.get('x-character'),
    model: model === null ? null : decodeURIComponent(model),
  }
}

function endingOf(reason: FinishReason, hasText: boolean): Ending | undefined {
  if (reason === 'length' && hasText)
    return { kind: 'length', message: 'The reply is as long as the model may make it.' }
  if (reason === 'content_filter') {
    const message =
      'The service of the model has ended the reply by its filter of contents. Change your message, or try again.'
    return { kind: 'failed', message }
  }
  if (!hasText) {
    const message = 'The model has answered without a text. Try again, or choose another model in the settings.'
    return { kind: 'failed', message }
  }
  return undefined
}

function endingBy(error: unknown): Ending {
  const { code, message, retryAfter } = Failure.of(error)
  if (code === 'stopped') return { kind: 'stopped', message: 'You have stopped this reply.' }
  if (retryAfter === undefined) return { kind: 'failed', message, code }
  const moment = new Date(Date.now() + retryAfter * 1000).toLocaleTimeString()
  return { kind: 'failed', message: `${message} It can be sent again from ${moment} on.`, code }
}

/** A streamed text. It is rendered at most once per frame. */
class StreamedText {
  whole: string
  readonly shown
  #isWaiting = false

  constructor(text: string) {
    this.whole = text
    this.shown = signal(text)
  }

  add(more: string): void {
    this.whole += more
    if (this.#isWaiting) return
    this.#isWaiting = true
    requestAnimationFrame(() => {
      this.#isWaiting = false
      this.shown.value = this.whole
    })
  }
}

/** The value of `greeting` for a conversation without a greeting. */
const noGreeting = -1

/**
 * The body of a request for a reply.
 * @param messages all messages so far. If the last message is from the character, the model continues it
 * @param seed by default the model chooses a seed
 */
function requestFor(
  { name, id }: Pick<Talk, 'name' | 'id'>,
  messages: readonly Message[],
  { model, temperature, userName, persona }: Settings,
  seed?: number,
): ChatRequest {
  const [first, second] = messages
  const greeting = first && shownSwipe(first).greeting
  // The greeting is left out, because the service adds the greeting and writes the user's name into it.
  const isWritten = greeting !== undefined && second?.role === 'user'
  // A failed reply has no text, and some upstreams refuse a message without one.
  const said = (isWritten ? messages.slice(1) : messages).filter((message) => shownSwipe(message).text.trim() !== '')
  const opensWithUser = said[0]?.role === 'user'
  const wanted = greeting ?? (opensWithUser ? noGreeting : undefined)
  return {
    model: model || 'default',
    messages: said.map((message) => ({ role: message.role, content: shownSwipe(message).text })),
    stream: true,
    character: name,
    conversation_id: id,
    ...(wanted === undefined ? {} : { greeting: wanted }),
    ...(userName.trim() === '' ? {} : { user_name: userName.trim() }),
    ...(persona.trim() === '' ? {} : { persona }),
    ...(temperature === null ? {} : { temperature }),
    ...(seed === undefined ? {} : { seed }),
  }
}

/** A random seed. */
function anySeed(): number {
  // Some upstreams accept only 31 bits.
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 1) >>> 1
}
