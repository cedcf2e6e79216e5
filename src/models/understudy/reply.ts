import type { Chunk, Completion, Usage } from '../../openai/completion.ts'
import { type CompletionRequest, type Message, maxReplyTokensOf } from '../../openai/completion-request.ts'
import type { FinishReason } from '../../openai/finish-reasons.ts'
import type { FunctionCall, FunctionTool } from '../../openai/tool-fields.ts'
import { functionsOf } from '../../openai/tools.ts'
import type { Steps } from '../../work.ts'
import type { ComposedParts, ModelEvent, ModelRequest } from '../model.ts'
import type { Tokenizer } from '../tokenizer.ts'
import { answerAs } from './card-answer.ts'
import { type Conversation, readConversation } from './conversation.ts'
import { indexIn } from './index-in.ts'
import { callOf, fittingValue, paramOf, textsOf, toolToCall } from './tool-call.ts'

/** One choice of a reply: a text, or a tool call. */
export interface Choice {
  readonly text: string | null
  readonly call: FunctionCall | null
  readonly finishReason: FinishReason
}

/** The identifying fields of a reply. */
export interface Identity {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
}

/** All choices of a reply, with its token counts. */
export interface Reply {
  readonly choices: readonly Choice[]
  readonly usage: Usage
}

/**
 * Makes the reply to a request.
 * @throws ApiError 400 for a `tool_choice` or a schema that the understudy cannot satisfy; the errors of `work`; the signal's
 * reason
 */
export async function makeReply(request: ModelRequest, tokenizer: Tokenizer, signal: AbortSignal): Promise<Reply> {
  const { body, work } = request
  if (functionsOf(body).hasOthers) request.onIgnored?.('tools')
  const conversation = readConversation(request.composition ? conversationIn(request.composition) : body.messages)
  const tool =
    body.tools || body.tool_choice ? await work.run('tools', toolToCall(body, conversation.question)) : undefined
  const param = tool ? paramOf(tool, body) : body.response_format?.type === 'json_schema' ? schemaParam : 'messages'
  const choices: Choice[] = []
  let completion = 0
  for (let index = 0; index < (body.n ?? 1); index += 1) {
    const steps = tool
      ? callChoice(tool, body, conversation, index, tokenizer)
      : textChoice(request, conversation, index, tokenizer)
    const { choice, tokens } = await work.run(param, counted(steps, tokenizer))
    signal.throwIfAborted()
    choices.push(choice)
    completion += tokens
  }
  const prompt = await work.run('messages', tokenizer.countMessages(body.messages))
  return {
    choices,
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
}

/** The conversation in a prompt: the greeting, and the caller's own messages. */
function conversationIn({ sections }: ComposedParts): readonly Message[] {
  return sections.flatMap(({ section, messages }) =>
    section === 'greeting' || section === 'conversation' ? (messages ?? []) : [],
  )
}

const schemaParam = 'response_format.json_schema.schema'

function* counted(steps: Steps<Choice>, tokenizer: Tokenizer): Steps<{ choice: Choice; tokens: number }> {
  const choice = yield* steps
  return { choice, tokens: yield* tokensOf(choice, tokenizer) }
}

function* callChoice(
  tool: FunctionTool,
  body: CompletionRequest,
  { question }: Conversation,
  index: number,
  tokenizer: Tokenizer,
): Steps<Choice> {
  return yield* cutCall(yield* callOf(tool, body, question, index), body, tokenizer)
}

function* textChoice(
  { body, persona, composition }: ModelRequest,
  conversation: Conversation,
  index: number,
  tokenizer: Tokenizer,
): Steps<Choice> {
  const words = yield* answerAs(persona, composition, conversation, body.seed ?? null, index)
  return yield* cutText(yield* inFormat(words.toWellFormed(), body, conversation.question), body, tokenizer)
}

/** If the request asks for JSON, puts the words into JSON. */
function* inFormat(words: string, { response_format: format }: CompletionRequest, question: string): Steps<string> {
  if (format?.type === 'json_object') return JSON.stringify({ reply: words })
  if (format?.type !== 'json_schema') return words
  const schema = format.json_schema?.schema ?? {}
  return JSON.stringify(yield* fittingValue(schema, textsOf(question, words), schemaParam))
}

/** Cuts a text before its first stop sequence, and at the maximum tokens. */
function* cutText(whole: string, body: CompletionRequest, tokenizer: Tokenizer): Steps<Choice> {
  let said = whole
  for (const stop of [body.stop ?? []].flat()) {
    const end = stop === '' ? -1 : yield* indexIn(said, stop)
    if (end >= 0) said = said.slice(0, end)
  }
  const text = yield* tokenizer.cut(said, maxTokens(body))
  return { call: null, text, finishReason: text.length < said.length ? 'length' : 'stop' }
}

/** Cuts a call's arguments at the maximum tokens, as a model would. */
function* cutCall(call: FunctionCall, body: CompletionRequest, tokenizer: Tokenizer): Steps<Choice> {
  const { name, arguments: whole } = call.function
  const text = yield* tokenizer.cut(whole, Math.max(0, maxTokens(body) - (yield* tokenizer.countSteps(name))))
  const finishReason = text.length < whole.length ? 'length' : 'tool_calls'
  return { text: null, call: { ...call, function: { name, arguments: text } }, finishReason }
}

function maxTokens(body: CompletionRequest): number {
  return maxReplyTokensOf(body) ?? Infinity
}

function* tokensOf({ text, call }: Choice, tokenizer: Tokenizer): Steps<number> {
  if (!call) return yield* tokenizer.countSteps(text ?? '')
  const { name, arguments: fields } = call.function
  return (yield* tokenizer.countSteps(name)) + (yield* tokenizer.countSteps(fields))
}

/** Writes a whole reply in OpenAI's shape, with every field that its schema requires. */
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

/**
 * The events of a streamed reply. Each choice has its role, its text or its call word by word, and its end. The usage comes last.
 * @param words the words of each choice
 */
export function* eventsOf(
  { id, created, model }: Identity,
  { choices, usage }: Reply,
  words: readonly (readonly string[])[],
): Iterable<ModelEvent> {
  const common = { id, object: 'chat.completion.chunk' as const, created, model }
  for (const [index, choice] of choices.entries()) {
    const event = (delta: Delta, finishReason: FinishReason | null = null): ModelEvent => ({
      chunk: { ...common, choices: [{ index, delta, logprobs: null, finish_reason: finishReason }] },
    })
    yield event({ role: 'assistant', content: choice.call ? null : '' })
    if (choice.call) {
      const { id, type, function: called } = choice.call
      yield event({ tool_calls: [{ index: 0, id, type, function: { name: called.name, arguments: '' } }] })
    }
    for (const part of words[index] ?? []) {
      yield event(choice.call ? { tool_calls: [{ index: 0, function: { arguments: part } }] } : { content: part })
    }
    yield event({}, choice.finishReason)
  }
  yield { chunk: { ...common, choices: [], usage } }
}

type Delta = Chunk['choices'][number]['delta']

const maxWordLength = 16

/** The words of each choice: of its text, or of its call's arguments. */
export function* wordsOfChoices(
  choices: readonly Choice[],
  tokenizer: Tokenizer,
): Steps<readonly (readonly string[])[]> {
  const words: (readonly string[])[] = []
  for (const { text, call } of choices) words.push(yield* wordsIn(call?.function.arguments ?? text ?? '', tokenizer))
  return words
}

/** Splits a text into words as a model would send them: each word consists of whole tokens. */
function* wordsIn(text: string, tokenizer: Tokenizer): Steps<readonly string[]> {
  const words: string[] = []
  for (const token of yield* tokenizer.split(text)) {
    const word = words.at(-1)
    if (word === undefined || /^\s/.test(token) || word.length >= maxWordLength) words.push(token)
    else words[words.length - 1] = word + token
  }
  return words
}
