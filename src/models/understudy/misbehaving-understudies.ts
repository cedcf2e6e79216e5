import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '../../errors.ts'
import type { Model, ModelEvent } from '../model.ts'
import { brokenOff } from '../upstream/errors.ts'

const delaysMs = { beforeFirst: 2000, betweenWords: 100 }

/**
 * Understudies that misbehave on purpose, so that authors of clients can test each failure offline.
 * @param understudy the ordinary understudy
 */
export function misbehavingUnderstudies(understudy: Model): Readonly<Record<string, Model>> {
  const { stream } = understudy
  const wordByWord: Model = { ...understudy, stream: (request, signal) => eachAlone(stream(request, signal)) }
  const tooMany = () =>
    new ApiError(429, 'rate_limit_exceeded', 'This understudy refuses on purpose. Try again in a second.', {
      headers: { 'retry-after': '1' },
    })
  return {
    slow: slow(wordByWord),
    stall: stalling(wordByWord),
    cut: cut(wordByWord),
    429: refusing(understudy, tooMany),
    500: refusing(understudy, () => new ApiError(500, 'internal_error', 'This understudy fails on purpose.')),
    garbage: garbled(wordByWord),
    empty: empty(understudy),
  }
}

/** The events of a stream one by one, as a model sends them. */
async function* eachAlone(groups: ReturnType<Model['stream']>): ReturnType<Model['stream']> {
  for await (const events of groups) for (const event of events) yield [event]
}

/** Waits 2 s, then sends the whole reply, or one word of the stream every 100 ms. */
function slow(understudy: Model): Model {
  return {
    ...understudy,
    async complete(request, signal) {
      const reply = await understudy.complete(request, signal)
      await sleep(delaysMs.beforeFirst, undefined, { signal })
      return reply
    },
    async *stream(request, signal) {
      await sleep(delaysMs.beforeFirst, undefined, { signal })
      for await (const events of understudy.stream(request, signal)) {
        yield events
        await sleep(delaysMs.betweenWords, undefined, { signal })
      }
    },
  }
}

/** Sends three words of a stream, and then nothing. Never sends a whole reply. */
function stalling(understudy: Model): Model {
  return {
    ...understudy,
    complete: (_request, signal) => untilAborted(signal),
    async *stream(request, signal) {
      yield* firstWordsOf(understudy.stream(request, signal))
      await untilAborted(signal)
    },
  }
}

/** Breaks off a stream after three words. For a whole reply, answers 502. */
function cut(understudy: Model): Model {
  return {
    ...refusing(understudy, brokenOff),
    async *stream(request, signal) {
      yield* firstWordsOf(understudy.stream(request, signal))
      throw brokenOff()
    },
  }
}

function refusing(understudy: Model, error: () => ApiError): Model {
  return {
    ...understudy,
    async complete() {
      throw error()
    },
    // biome-ignore lint/correctness/useYield: it fails before its first event, as its name says
    async *stream() {
      throw error()
    },
  }
}

/** Sends invalid JSON, either as the whole reply or as the third event of a stream. */
function garbled(understudy: Model): Model {
  const text = '{"object":"chat.completion.chunk","choi'
  return {
    ...understudy,
    async complete(request, signal) {
      return { ...(await understudy.complete(request, signal)), bytes: Buffer.from('<html>This is no completion.') }
    },
    async *stream(request, signal) {
      let count = 0
      for await (const events of understudy.stream(request, signal)) {
        count += 1
        yield count === 3 ? events.map((event) => ({ ...event, text })) : events
      }
    },
  }
}

/** Sends a complete reply without a word. */
function empty(understudy: Model): Model {
  return {
    ...understudy,
    async complete(request, signal) {
      const { completion } = await understudy.complete(request, signal)
      const message = { role: 'assistant' as const, content: '', refusal: null }
      const choices = completion.choices.map((choice) => ({ ...choice, message, finish_reason: 'stop' as const }))
      return { completion: { ...completion, choices } }
    },
    async *stream(request, signal) {
      for await (const events of understudy.stream(request, signal)) {
        yield events.flatMap(withoutWords)
      }
    },
  }
}

/** An event without words, and without the reason that something was cut off; none for an event that has only words. */
function withoutWords(event: ModelEvent): readonly ModelEvent[] {
  if (!('chunk' in event)) return [event]
  if (event.chunk.choices.some(({ delta }) => delta.content || delta.tool_calls)) return []
  const choices = event.chunk.choices.map((choice) => ({
    ...choice,
    finish_reason: choice.finish_reason && ('stop' as const),
  }))
  return [{ chunk: { ...event.chunk, choices } }]
}

/** The role and three words of a stream. */
async function* firstWordsOf(groups: ReturnType<Model['stream']>): ReturnType<Model['stream']> {
  let count = 0
  for await (const events of groups) {
    yield events
    count += 1
    if (count === 4) return
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.throwIfAborted()
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
