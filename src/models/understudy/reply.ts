import type { Chunk, Completion, FinishReason, Usage } from '../../openai/completion.ts'
import type { CompletionRequest, ToolCall } from '../../openai/completion-request.ts'
import type { Steps, Work } from '../../work.ts'
import type { ModelEvent, ModelRequest } from '../model.ts'
import type { Tokenizer } from '../tokenizer.ts'
import { act } from './card-answer.ts'
import { type Conversation, readConversation } from './conversation.ts'
import { indexIn } from './index-in.ts'
import { callOf, fittingValue, requiredTool, type Tool, textsOf } from './tool-call.ts'

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

/** All choices of a reply, and what they cost. */
export interface Reply {
  readonly choices: readonly Choice[]
  readonly usage: Usage
}

/** Plays the reply to a request. */
export async function playReply(request: ModelRequest, tokenizer: Tokenizer, signal: AbortSignal): Promise<Reply> {
  const { body, work } = request
  const conversation = readConversation(body.messages)
  const tool = body.tool_choice
    ? await work.run('tools', requiredTool(body.tool_choice, body.tools, conversation.question))
    : undefined
  const choices: Choice[] = []
  let completion = 0
  for (let index = 0; index < (body.n ?? 1); index += 1) {
    const choice = await (tool
      ? call(request, tool, conversation, index, tokenizer)
      : say(request, conversation, index, tokenizer))
    signal.throwIfAborted()
    choices.push(choice)
    completion += await work.run('messages', tokensOf(choice, tokenizer))
  }
  const prompt = await work.run('messages', tokenizer.countMessages(body.messages))
  return {
    choices,
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
}

/** A choice that calls a tool. */
async function call(
  request: ModelRequest,
  tool: Tool,
  { question }: Conversation,
  index: number,
  tokenizer: Tokenizer,
): Promise<Choice> {
  const made = await callOf(tool, request, question, index)
  return request.work.run('messages', cutCall(made, request.body, tokenizer))
}

/** A choice that is a text. */
async function say(
  { body, persona, work }: ModelRequest,
  conversation: Conversation,
  index: number,
  tokenizer: Tokenizer,
): Promise<Choice> {
  const words = await work.run('character', act(persona, conversation, body.seed ?? null, index))
  const text = await inFormat(words.toWellFormed(), body, conversation.question, work)
  return work.run('messages', cutText(text, body, tokenizer))
}

/** Puts the words into the JSON that the request asks for. */
async function inFormat(
  words: string,
  { response_format: format }: CompletionRequest,
  question: string,
  work: Work,
): Promise<string> {
  if (format?.type === 'json_object') return JSON.stringify({ reply: words })
  if (format?.type !== 'json_schema') return words
  const param = 'response_format.json_schema.schema'
  const schema = format.json_schema?.schema ?? {}
  return JSON.stringify(await work.run(param, fittingValue(schema, textsOf(question, words), param)))
}

/** Ends a text before the first stop sequence and at the most tokens, whichever comes first. */
function* cutText(whole: string, body: CompletionRequest, tokenizer: Tokenizer): Steps<Choice> {
  let said = whole
  for (const stop of [body.stop ?? []].flat()) {
    const end = stop === '' ? -1 : yield* indexIn(said, stop)
    if (end >= 0) said = said.slice(0, end)
  }
  const text = yield* tokenizer.cut(said, mostTokens(body))
  return { call: null, text, finishReason: text.length < said.length ? 'length' : 'stop' }
}

/** Ends a call's arguments at the most tokens, as a model does that runs out of them. */
function* cutCall(call: ToolCall, body: CompletionRequest, tokenizer: Tokenizer): Steps<Choice> {
  const { name, arguments: whole } = call.function
  const text = yield* tokenizer.cut(whole, Math.max(0, mostTokens(body) - (yield* tokenizer.countSteps(name))))
  const finishReason = text.length < whole.length ? 'length' : 'tool_calls'
  return { text: null, call: { ...call, function: { name, arguments: text } }, finishReason }
}

function mostTokens(body: CompletionRequest): number {
  return body.max_completion_tokens ?? body.max_tokens ?? Infinity
}

function* tokensOf({ text, call }: Choice, tokenizer: Tokenizer): Steps<number> {
  if (!call) return yield* tokenizer.countSteps(text ?? '')
  const { name, arguments: fields } = call.function
  return (yield* tokenizer.countSteps(name)) + (yield* tokenizer.countSteps(fields))
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
export async function* eventsOf(
  { id, created, model }: Identity,
  { choices, usage }: Reply,
  wordsOf: (text: string) => Promise<readonly string[]> | readonly string[],
): AsyncGenerator<ModelEvent, undefined> {
  const common = { id, object: 'chat.completion.chunk' as const, created, model }
  for (const [index, choice] of choices.entries()) {
    const event = (delta: Delta, finishReason: FinishReason | null = null): ModelEvent => ({
      chunk: { ...common, choices: [{ index, delta, logprobs: null, finish_reason: finishReason }] },
    })
    yield event({ role: 'assistant', content: choice.call ? null : '' })
    if (choice.call) {
      const { id, type, function: called } = choice.call
      yield event({ tool_calls: [{ index: 0, id, type, function: { name: called.name, arguments: '' } }] })
      for (const part of await wordsOf(called.arguments)) {
        yield event({ tool_calls: [{ index: 0, function: { arguments: part } }] })
      }
    }
    for (const part of await wordsOf(choice.text ?? '')) yield event({ content: part })
    yield event({}, choice.finishReason)
  }
  yield { chunk: { ...common, choices: [], usage } }
}

type Delta = Chunk['choices'][number]['delta']

const longestWord = 16

/** A text in pieces that a model would send: whole tokens, as far as they make one word. */
export function* wordsIn(text: string, tokenizer: Tokenizer): Steps<readonly string[]> {
  const words: string[] = []
  for (const token of yield* tokenizer.split(text)) {
    const word = words.at(-1)
    if (word === undefined || /^\s/.test(token) || word.length >= longestWord) words.push(token)
    else words[words.length - 1] = word + token
  }
  return words
}
