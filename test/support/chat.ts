import { expect } from 'vitest'
import type { OpenAiErrorBody } from '../../src/errors.ts'
import type { ModelEvent } from '../../src/models/model.ts'
import type { Chunk, Completion } from '../../src/openai/completion.ts'

/** The events of a streamed reply. */
export interface Streamed {
  /** The `data` of each event, unchanged, including the final `[DONE]`. */
  readonly data: readonly string[]
  /** The events that are chunks. */
  readonly chunks: readonly Chunk[]
  /** The events that are errors. */
  readonly errors: readonly OpenAiErrorBody[]
  readonly comments: readonly string[]
  readonly isDone: boolean
}

/** Reads the body of a whole reply. */
export async function readCompletion(response: Response): Promise<Completion> {
  return JSON.parse(await response.text())
}

/** Reads the body of a streamed reply to its end. */
export async function readStream(response: Response): Promise<Streamed> {
  return parseStream(await response.text())
}

/** Reads the text of a streamed reply. @throws Error for an event that is neither a comment nor lines of `data: ` */
export function parseStream(text: string): Streamed {
  const data: string[] = []
  const comments: string[] = []
  for (const event of text.split('\n\n').slice(0, -1)) {
    if (event.startsWith(':')) comments.push(event)
    else if (/^data: .*(\ndata: .*)*$/.test(event)) data.push(event.slice(6).replaceAll('\ndata: ', '\n'))
    else throw new Error(`not a server-sent event: ${JSON.stringify(event)}`)
  }
  if (!text.endsWith('\n\n') && text !== '') throw new Error('the last event has no blank line')
  const chunks: Chunk[] = []
  const errors: OpenAiErrorBody[] = []
  for (const event of data.filter((each) => each !== '[DONE]')) {
    const value: Chunk | OpenAiErrorBody = JSON.parse(event)
    if ('error' in value) errors.push(value)
    else chunks.push(value)
  }
  return { data, chunks, errors, comments, isDone: data.includes('[DONE]') }
}

/** The whole text of a stream's choice. */
export function textOfStream({ chunks }: Streamed, index = 0): string {
  return chunks
    .flatMap(({ choices }) => choices)
    .filter((choice) => choice.index === index)
    .map(({ delta }) => delta.content ?? '')
    .join('')
}

/** All finish reasons of a stream's choice. */
export function finishReasons({ chunks }: Streamed, index = 0): readonly string[] {
  return chunks
    .flatMap(({ choices }) => choices)
    .filter((choice) => choice.index === index)
    .flatMap(({ finish_reason }) => finish_reason ?? [])
}

/**
 * Reads an error of the chat routes, and checks that it has exactly OpenAI's shape.
 * @throws Error if the error has another shape
 */
export async function readChatError(response: Response): Promise<OpenAiErrorBody['error']> {
  const text = await response.text()
  const body: OpenAiErrorBody = JSON.parse(text)
  const keys = `${Object.keys(body)}: ${Object.keys(body.error)}`
  const { message, type, param, code } = body.error
  const types = [typeof message, typeof type, param === null ? 'string' : typeof param, typeof code]
  if (keys !== 'error: message,type,param,code' || types.some((each) => each !== 'string') || message === '') {
    throw new Error(`not an error in OpenAI's shape: ${text}`)
  }
  return body.error
}

/** The text of a reply, whole or streamed. */
export async function textOf(response: Response, stream: boolean): Promise<string> {
  if (stream) return textOfStream(await readStream(response))
  return (await readCompletion(response)).choices[0]?.message.content ?? ''
}

/** Checks that a stream ended with one error event of this code, and no `[DONE]`. */
export function expectBrokenOff(streamed: Streamed, code: string): void {
  expect(streamed.errors.map(({ error }) => error.code)).toEqual([code])
  expect(streamed.isDone).toBe(false)
  expect(streamed.data.at(-1)).toBe(JSON.stringify(streamed.errors[0]))
}

/** The chunks of a group of events, all of which must be parsed chunks. */
export function chunksIn(events: readonly ModelEvent[]): readonly Chunk[] {
  return events.map((event) => {
    if ('chunk' in event) return event.chunk
    throw new Error('an event passes unread')
  })
}
