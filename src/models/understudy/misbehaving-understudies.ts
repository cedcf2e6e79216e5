import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '../../errors.ts'
import type { Chunk } from '../../openai/completion.ts'
import type { Model, ModelEvent, ModelReply, ModelRequest } from '../model.ts'
import { brokenOff } from '../upstream/errors.ts'

const delaysMs = { beforeFirst: 2000, betweenWords: 100 }

/** The methods of a misbehaving understudy. */
interface Misbehaviour {
  complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>
}

/**
 * Understudies that misbehave on purpose, so that authors of clients can test each failure offline.
 * @param understudy the ordinary understudy
 */
export function misbehavingUnderstudies(understudy: Model): Readonly<Record<string, Model>> {
  const misbehaviours: Readonly<Record<string, Misbehaviour>> = {
    slow: slow(understudy),
    stall: stalling(understudy),
    cut: cut(understudy),
    429: refusing(
      () =>
        new ApiError(429, 'rate_limit_exceeded', 'This understudy refuses on purpose. Try again in a second.', {
          headers: { 'retry-after': '1' },
        }),
    ),
    500: refusing(() => new ApiError(500, 'internal_error', 'This understudy fails on purpose.')),
    garbage: garbled(understudy),
    empty: empty(understudy),
  }
  const { ignoredParameters, readsParts = false } = understudy
  return Object.fromEntries(
    Object.entries(misbehaviours).map(([name, misbehaviour]) => [
      name,
      { ignoredParameters, readsParts, ...misbehaviour },
    ]),
  )
}

/** Waits 2 s, then sends the whole reply, or one word of the stream every 100 ms. */
function slow(understudy: Model): Misbehaviour {
  return {
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
function stalling(understudy: Model): Misbehaviour {
  return {
    complete: (_request, signal) => untilAborted(signal),
    async *stream(request, signal) {
      yield* firstOf(understudy.stream(request, signal), 4)
      await untilAborted(signal)
    },
  }
}

/** Breaks off a stream after three words. For a whole reply, answers 502. */
function cut(understudy: Model): Misbehaviour {
  return {
    async complete() {
      throw brokenOff()
    },
    async *stream(request, signal) {
      yield* firstOf(understudy.stream(request, signal), 4)
      throw brokenOff()
    },
  }
}

function refusing(error: () => ApiError): Misbehaviour {
  return {
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
function garbled(understudy: Model): Misbehaviour {
  return {
    async complete(request, signal) {
      return { ...(await understudy.complete(request, signal)), bytes: Buffer.from('<html>This is no completion.') }
    },
    async *stream(request, signal) {
      let count = 0
      for await (const events of understudy.stream(request, signal)) {
        count++
        yield count === 3
          ? events.map((event) => ({ ...event, text: '{"object":"chat.completion.chunk","choi' }))
          : events
      }
    },
  }
}

function empty(understudy: Model): Misbehaviour {
  return {
    async complete(request, signal) {
      const { completion } = await understudy.complete(request, signal)
      const choices = completion.choices.map((choice) => ({
        ...choice,
        message: { role: 'assistant' as const, content: '', refusal: null },
        finish_reason: 'stop' as const,
      }))
      return { completion: { ...completion, choices } }
    },
    async *stream(request, signal) {
      for await (const events of understudy.stream(request, signal)) {
        yield events.filter((event) => !('chunk' in event) || event.chunk.choices.every(isWordless)).map(stopped)
      }
    },
  }
}

/** Changes the `finish_reason` of an event to `stop`, because nothing was cut off. */
function stopped(event: ModelEvent): ModelEvent {
  if (!('chunk' in event)) return event
  const choices = event.chunk.choices.map((choice) =>
    choice.finish_reason === null ? choice : { ...choice, finish_reason: 'stop' as const },
  )
  return { chunk: { ...event.chunk, choices } }
}

function isWordless({ delta }: Chunk['choices'][number]): boolean {
  return !delta.content && !delta.tool_calls
}

async function* firstOf(
  groups: AsyncIterable<readonly ModelEvent[]>,
  count: number,
): AsyncIterable<readonly ModelEvent[]> {
  let seen = 0
  for await (const events of groups) {
    yield events
    seen++
    if (seen === count) return
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.throwIfAborted()
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
