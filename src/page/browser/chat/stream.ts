import { createParser } from 'eventsource-parser'
import { unreachable } from '../base/api.ts'
import { Failure } from '../base/failure.ts'

/** OpenAI's `finish_reason`; null if the stream had no finish reason. */
export type FinishReason = string | null

/** Characters of a stream that are parsed in one step. */
const sliceLength = 16_384
/** After so many milliseconds of parsing, the page may paint and handle input. */
const maxBusyMs = 12

/**
 * Reads a streamed completion to its end.
 * @param onText is called with each piece of the reply
 * @throws Failure if the stream breaks off, or has an error event
 */
export async function readStream(reply: Response, onText: (text: string) => void): Promise<FinishReason> {
  let finish: FinishReason = null
  let isDone = false
  let fault: Failure | undefined
  const parser = createParser({
    onEvent({ data }) {
      if (isDone || fault) return
      if (data === '[DONE]') {
        isDone = true
        return
      }
      const chunk = readChunk(data)
      fault = chunk.fault
      finish = chunk.finish ?? finish
      if (chunk.text !== '') onText(chunk.text)
    },
  })
  for await (const text of slicesOf(reply)) {
    parser.feed(text)
    if (fault) throw fault
    if (isDone) return finish
  }
  throw new Failure(0, 'broken_off', 'The reply broke off before its end. What has come so far is kept.')
}

/** The text of a body in slices, with pauses for the page between them. */
async function* slicesOf(reply: Response): AsyncGenerator<string> {
  const reader = reply.body?.getReader()
  if (!reader) return
  const decoder = new TextDecoder()
  let rested = performance.now()
  try {
    while (true) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw error instanceof DOMException && error.name === 'AbortError' ? error : unreachable()
      })
      const text = decoder.decode(value, { stream: !done })
      for (let start = 0; start < text.length; start += sliceLength) {
        yield text.slice(start, start + sliceLength)
        if (performance.now() - rested < maxBusyMs) continue
        await rest()
        rested = performance.now()
      }
      if (done) return
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** Lets other tasks of the page run. A message is used, because browsers slow down timers in background tabs. */
function rest(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

interface ReadChunk {
  readonly text: string
  readonly finish: FinishReason
  readonly fault?: Failure
}

/** The fields of a chunk that the page reads. */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null }
    readonly finish_reason?: string
  }[]
  readonly error?: { readonly message?: string; readonly code?: string | null; readonly type?: string }
}

function readChunk(data: string): ReadChunk {
  let chunk: Chunk
  try {
    chunk = JSON.parse(data)
  } catch {
    const message = 'The reply has something in it that this page does not understand. What came before it is kept.'
    return { text: '', finish: null, fault: new Failure(0, 'not_understood', message) }
  }
  const { error, choices } = chunk
  if (error) {
    const fault = new Failure(0, error.code ?? error.type ?? 'error', error.message ?? 'The reply ended with an error.')
    return { text: '', finish: null, fault }
  }
  const choice = choices?.[0]
  return { text: choice?.delta?.content ?? '', finish: choice?.finish_reason ?? null }
}
