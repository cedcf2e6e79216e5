import type { FinishReason, Usage } from '../../chat/completion.ts'
import type { CompletionRequest } from '../../chat/completion-request.ts'
import type { ModelRequest } from '../model.ts'
import type { Tokenizer } from '../tokenizer.ts'
import { act } from './acting.ts'
import { readConversation } from './conversation.ts'
import type { Choice } from './objects.ts'
import { callOf, fittingValue, requiredTool, textsOf } from './tool-call.ts'

/** All choices of a reply, and what they cost. */
export interface Reply {
  readonly choices: readonly Choice[]
  readonly usage: Usage
}

/** Plays the reply to a request. */
export async function playReply(
  { body, persona }: ModelRequest,
  tokenizer: Tokenizer,
  signal: AbortSignal,
): Promise<Reply> {
  const conversation = readConversation(body.messages)
  const tool = requiredTool(body, conversation.question)
  const choices = Array.from({ length: body.n ?? 1 }, (_, index): Choice => {
    if (tool) return cutCall(callOf(tool, body, conversation.question, index), body, tokenizer)
    const words = act(persona, conversation, body.seed ?? null, index).toWellFormed()
    return { call: null, ...cutText(inFormat(words, body, conversation.question), body, tokenizer) }
  })
  const prompt = await tokenizer.countMessages(body.messages, signal)
  const completion = choices.reduce((sum, choice) => sum + tokensOf(choice, tokenizer), 0)
  return {
    choices,
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
}

/** Puts the words into the JSON that the request asks for. */
function inFormat(words: string, { response_format: format }: CompletionRequest, question: string): string {
  if (format?.type === 'json_object') return JSON.stringify({ reply: words })
  if (format?.type !== 'json_schema') return words
  const schema = format.json_schema?.schema ?? {}
  return JSON.stringify(fittingValue(schema, textsOf(question, words), 'response_format.json_schema.schema'))
}

/** Ends a text before the first stop sequence and at the most tokens, whichever comes first. */
function cutText(
  whole: string,
  body: CompletionRequest,
  tokenizer: Tokenizer,
): { text: string; finishReason: FinishReason } {
  const ends = [body.stop ?? []]
    .flat()
    .filter((stop) => stop !== '')
    .map((stop) => whole.indexOf(stop))
    .filter((position) => position >= 0)
  const said = whole.slice(0, Math.min(whole.length, ...ends))
  const text = tokenizer.cut(said, mostTokens(body))
  return { text, finishReason: text.length < said.length ? 'length' : 'stop' }
}

/** Ends a call's arguments at the most tokens, as a model does that runs out of them. */
function cutCall(call: NonNullable<Choice['call']>, body: CompletionRequest, tokenizer: Tokenizer): Choice {
  const { name, arguments: whole } = call.function
  const text = tokenizer.cut(whole, Math.max(0, mostTokens(body) - tokenizer.count(name)))
  const finishReason = text.length < whole.length ? 'length' : 'tool_calls'
  return { text: null, call: { ...call, function: { name, arguments: text } }, finishReason }
}

function mostTokens(body: CompletionRequest): number {
  return body.max_completion_tokens ?? body.max_tokens ?? Infinity
}

function tokensOf({ text, call }: Choice, tokenizer: Tokenizer): number {
  const called = call ? tokenizer.count(call.function.name) + tokenizer.count(call.function.arguments) : 0
  return called + tokenizer.count(text ?? '')
}
