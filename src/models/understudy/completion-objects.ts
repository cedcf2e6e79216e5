import type { Chunk, Completion, FinishReason, Usage } from '../../openai/completion.ts'
import type { ToolCall } from '../../openai/completion-request.ts'
import type { ModelEvent } from '../model.ts'
import type { Tokenizer } from '../tokenizer.ts'

/** One choice of a reply: a text, or a call of a tool. */
export interface Choice {
  readonly text: string | null
  readonly call: ToolCall | null
  readonly finishReason: FinishReason
}

/** What identifies a reply. */
export interface Identity {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** Puts a whole reply in OpenAI's shape, with every field that its schema requires. */
export function completionOf(identity: Identity, choices: readonly Choice[], usage: Usage): Completion {
  return {
    id: identity.id,
    object: 'chat.completion',
    created: identity.created,
    model: identity.model,
    choices: choices.map(({ text, call, finishReason }, index) => ({
      index,
      message: { role: 'assistant', content: text, refusal: null, ...(call && { tool_calls: [call] }) },
      logprobs: null,
      finish_reason: finishReason,
    })),
    usage,
  }
}

/** The events of a streamed reply: each choice's role, its text word by word, its end; and the usage at last. */
export function* eventsOf(
  identity: Identity,
  choices: readonly Choice[],
  usage: Usage,
  tokenizer: Tokenizer,
): Iterable<ModelEvent> {
  for (const [index, choice] of choices.entries()) {
    const event = (delta: Delta, finishReason: FinishReason | null = null): ModelEvent => ({
      chunk: chunkOf(identity, [{ index, delta, logprobs: null, finish_reason: finishReason }]),
    })
    yield event({ role: 'assistant', content: choice.call ? null : '' })
    if (choice.call) {
      const { id, type, function: called } = choice.call
      yield event({ tool_calls: [{ index: 0, id, type, function: { name: called.name, arguments: '' } }] })
      for (const part of wordsIn(called.arguments, tokenizer)) {
        yield event({ tool_calls: [{ index: 0, function: { arguments: part } }] })
      }
    }
    for (const part of wordsIn(choice.text ?? '', tokenizer)) yield event({ content: part })
    yield event({}, choice.finishReason)
  }
  yield { chunk: { ...chunkOf(identity, []), usage } }
}

type Delta = Chunk['choices'][number]['delta']

function chunkOf({ id, created, model }: Identity, choices: Chunk['choices']): Chunk {
  return { id, object: 'chat.completion.chunk', created, model, choices }
}

const longestWord = 16

/** A text in pieces that a model would send: whole tokens, as far as they make one word. */
function wordsIn(text: string, tokenizer: Tokenizer): readonly string[] {
  const words: string[] = []
  for (const token of tokenizer.split(text)) {
    const word = words.at(-1)
    if (word === undefined || /^\s/.test(token) || word.length >= longestWord) words.push(token)
    else words[words.length - 1] = word + token
  }
  return words
}
