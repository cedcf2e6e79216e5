import { bufferOf } from '../../bytes.ts'
import type { Chunk, Completion, Usage } from '../../openai/completion.ts'
import type { Message } from '../../openai/completion-request.ts'
import type { FinishReason } from '../../openai/finish-reasons.ts'
import type { FunctionCall } from '../../openai/tool-fields.ts'
import { defineJob } from '../../work/job.ts'
import type { ModelEvent } from '../model.ts'
import { loadTokenizer } from '../tokenizer.ts'
import { answersAs } from './card-answer.ts'
import { type Conversation, readConversation } from './conversation.ts'
import { indexIn } from './index-in.ts'
import type { ReplyInput } from './reply-input.ts'
import { type CallableTool, callOf, fittingValue, textsOf, toolToCall } from './tool-call.ts'

/** One choice of a reply: a text, or a tool call. */
export interface Choice {
  readonly text: string | null
  readonly call: FunctionCall | null
  /** The words of the text, or of the call's arguments, for a stream. */
  readonly words?: readonly string[]
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

/** The tokenizer of this thread. */
const tokenizer = await loadTokenizer()

/**
 * Makes the reply to a request.
 * @throws ApiError 400 for a `tool_choice` or a schema that the understudy cannot satisfy
 */
export const understudyJob = defineJob(import.meta.url, 'understudyJob', (input: ReplyInput): Reply => {
  const messages = messagesOf(input)
  const conversation = readConversation(input.conversation ?? messages)
  const tool = input.tools && toolToCall(input.tools, messages, conversation.question)
  const choices = tool ? calls(tool, input, conversation, messages.length) : spoken(input, conversation)
  const prompt = tokenizer.countMessages(messages)
  const completion = choices.reduce((sum, choice) => sum + tokensOf(choice), 0)
  return {
    choices,
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  }
})

function messagesOf({ messages }: ReplyInput): readonly Message[] {
  return messages instanceof Uint8Array ? JSON.parse(bufferOf(messages).toString()) : messages
}

/** Calls of a tool. Their arguments are cut at the most tokens, as a model would cut them. */
function calls(tool: CallableTool, input: ReplyInput, { question }: Conversation, messages: number): readonly Choice[] {
  return Array.from({ length: input.choiceCount }, (_, index) => {
    const call = callOf(tool, question, `${messages}/${input.seed ?? ''}/${index}`)
    const { name, arguments: whole } = call.function
    const text = tokenizer.cut(whole, Math.max(0, input.maxTokens - tokenizer.count(name)))
    const finishReason = text.length < whole.length ? 'length' : 'tool_calls'
    return { text: null, call: { ...call, function: { name, arguments: text } }, finishReason, ...split(text, input) }
  })
}

function spoken(input: ReplyInput, conversation: Conversation): readonly Choice[] {
  const answers = answersAs(input.persona, input.parts, conversation, input.seed, input.choiceCount)
  return answers.map((words) => {
    const said = untilStop(inForm(words.toWellFormed(), input.form, conversation.question), input.stop)
    const text = tokenizer.cut(said, input.maxTokens)
    return { call: null, text, finishReason: text.length < said.length ? 'length' : 'stop', ...split(text, input) }
  })
}

/** Puts the words into JSON, if the request asks for it. */
function inForm(words: string, form: ReplyInput['form'], question: string): string {
  if (form === 'text') return words
  return JSON.stringify(form === 'object' ? { reply: words } : fittingValue(form, textsOf(question, words)))
}

/** The text before its first stop sequence. */
function untilStop(text: string, stops: readonly string[]): string {
  return stops.reduce((said, stop) => {
    const end = stop === '' ? -1 : indexIn(said, stop)
    return end >= 0 ? said.slice(0, end) : said
  }, text)
}

function split(text: string, { isSplit }: ReplyInput): Pick<Choice, 'words'> {
  return isSplit ? { words: wordsIn(text) } : {}
}

function tokensOf({ text, call }: Choice): number {
  if (!call) return tokenizer.count(text ?? '')
  const { name, arguments: fields } = call.function
  return tokenizer.count(name) + tokenizer.count(fields)
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
 */
export function* eventsOf({ id, created, model }: Identity, { choices, usage }: Reply): Iterable<ModelEvent> {
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
    for (const part of choice.words ?? []) {
      yield event(choice.call ? { tool_calls: [{ index: 0, function: { arguments: part } }] } : { content: part })
    }
    yield event({}, choice.finishReason)
  }
  yield { chunk: { ...common, choices: [], usage } }
}

type Delta = Chunk['choices'][number]['delta']

const maxWordLength = 16

/** Splits a text into words as a model would send them: each word consists of whole tokens. */
function wordsIn(text: string): readonly string[] {
  const words: string[] = []
  for (const token of tokenizer.split(text)) {
    const word = words.at(-1)
    if (word === undefined || /^\s/.test(token) || word.length >= maxWordLength) words.push(token)
    else words[words.length - 1] = word + token
  }
  return words
}
