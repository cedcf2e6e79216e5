import { randomUUID } from 'node:crypto'
import type { Chunk, Completion, Usage } from '../../openai/completion.ts'
import { unixSeconds } from '../../time.ts'
import type { ModelEvent } from '../model.ts'
import type { Answer, Piece } from './engine.ts'

type Delta = Chunk['choices'][number]['delta']

/** An event of one of the answers to a request. */
export type AnswerEvent = { readonly index: number } & (
  | { readonly begins: true }
  | { readonly piece: Piece }
  | { readonly ends: Answer }
)

/** Writes a model's answers in OpenAI's shapes, with every required field. */
export class Reply {
  readonly #head: { readonly id: string; readonly created: number; readonly model: string }

  constructor(model: string) {
    this.#head = { id: `chatcmpl-${randomUUID()}`, created: unixSeconds(), model }
  }

  event(event: AnswerEvent): ModelEvent {
    if ('begins' in event) return this.#event(event.index, { role: 'assistant', content: '', refusal: null }, null)
    if ('ends' in event) return this.#event(event.index, {}, event.ends.finish)
    const { text, isThought } = event.piece
    return this.#event(event.index, isThought ? { content: null, ...thought(text) } : { content: text }, null)
  }

  usage(usage: Usage): ModelEvent {
    return { chunk: { ...this.#head, object: 'chat.completion.chunk', choices: [], usage } }
  }

  completion(answers: readonly Answer[], usage: Usage): Completion {
    return {
      ...this.#head,
      object: 'chat.completion',
      choices: answers.map(({ text, thoughts, finish }, index) => ({
        index,
        message: { role: 'assistant', content: text, refusal: null, ...(thoughts === '' ? {} : thought(thoughts)) },
        logprobs: null,
        finish_reason: finish,
      })),
      usage,
    }
  }

  #event(index: number, delta: Delta, finish: Answer['finish'] | null): ModelEvent {
    const choices = [{ index, delta, logprobs: null, finish_reason: finish }]
    return { chunk: { ...this.#head, object: 'chat.completion.chunk', choices } }
  }
}

/** Reasoning, in the field that most servers of open models use. OpenAI's API has no such field. */
function thought(text: string): { readonly reasoning_content: string } {
  return { reasoning_content: text }
}
