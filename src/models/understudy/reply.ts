import { randomUUID } from 'node:crypto'
import { bufferOf } from '../../bytes.ts'
import type { Chunk, Completion, Usage } from '../../openai/completion.ts'
import type { Message } from '../../openai/completion-request.ts'
import type { FinishReason } from '../../openai/finish-reasons.ts'
import type { FunctionCall } from '../../openai/tool-fields.ts'
import { unixSeconds } from '../../time.ts'
import { spend } from '../../work/fuel.ts'
import { defineJob } from '../../work/job.ts'
import type { ModelEvent } from '../model.ts'
import { loadTokenizer } from '../tokenizer.ts'
import { answersAs } from './answer.ts'
import { type CallableTool, type Conversation, type ReplyInput, readConversation } from './reply-input.ts'
import { callOf, fittingValue, textsOf, toolToCall } from './tool-call.ts'

/** One choice of a reply: a text, or a tool call. */
export interface Choice {
  readonly text: string | null
  readonly call: FunctionCall | null
  readonly finishReason: FinishReason
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
  const given = input.messages
  const messages: readonly Message[] = given instanceof Uint8Array ? JSON.parse(bufferOf(given).toString()) : given
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

/** Calls of a tool. Their arguments are cut at the most tokens, as a model would cut them. */
function calls(tool: CallableTool, input: ReplyInput, { question }: Conversation, messages: number): readonly Choice[] {
  return Array.from({ length: input.choiceCount }, (_, index) => {
    const call = callOf(tool, question, `${messages}/${input.seed ?? ''}/${index}`)
    const { name, arguments: whole } = call.function
    const text = tokenizer.cut(whole, Math.max(0, input.maxTokens - tokenizer.count(name)))
    const finishReason = text.length < whole.length ? 'length' : 'tool_calls'
    return { text: null, call: { ...call, function: { name, arguments: text } }, finishReason }
  })
}

function spoken(input: ReplyInput, conversation: Conversation): readonly Choice[] {
  const answers = answersAs(input, conversation)
  return answers.map((words) => {
    const said = untilStop(inForm(words.toWellFormed(), input.form, conversation.question), input.stop)
    const text = tokenizer.cut(said, input.maxTokens)
    return { call: null, text, finishReason: text.length < said.length ? 'length' : 'stop' }
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
    // A native search may compare the whole stop sequence at each letter.
    spend((said.length * stop.length) >> 6)
    const end = stop === '' ? -1 : said.indexOf(stop)
    return end >= 0 ? said.slice(0, end) : said
  }, text)
}

function tokensOf({ text, call }: Choice): number {
  const [name, words] = call ? [call.function.name, call.function.arguments] : ['', text ?? '']
  return tokenizer.count(name) + tokenizer.count(words)
}

/** The identifying fields of a new reply. */
function identityOf<Kind extends string>(object: Kind, model: string) {
  return { id: `chatcmpl-${randomUUID().replaceAll('-', '')}`, object, created: unixSeconds(), model }
}

/** Writes a whole reply in OpenAI's shape, with every field that its schema requires. */
export function completionOf(model: string, { choices, usage }: Reply): Completion {
  return {
    ...identityOf('chat.completion', model),
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
export function eventsOf(model: string, { choices, usage }: Reply): readonly ModelEvent[] {
  const common = identityOf('chat.completion.chunk', model)
  const events: ModelEvent[] = []
  for (const [index, choice] of choices.entries()) {
    const add = (delta: Delta, finishReason: FinishReason | null = null): void => {
      const choices = [{ index, delta, logprobs: null, finish_reason: finishReason }]
      events.push({ chunk: { ...common, choices } })
    }
    add({ role: 'assistant', content: choice.call ? null : '' })
    if (choice.call) {
      const { id, type, function: called } = choice.call
      add({ tool_calls: [{ index: 0, id, type, function: { name: called.name, arguments: '' } }] })
    }
    for (const word of wordsIn(choice.call?.function.arguments ?? choice.text ?? '')) {
      add(choice.call ? { tool_calls: [{ index: 0, function: { arguments: word } }] } : { content: word })
    }
    add({}, choice.finishReason)
  }
  events.push({ chunk: { ...common, choices: [], usage } })
  return events
}

type Delta = Chunk['choices'][number]['delta']

/** Splits a text into words with the blanks before them. A long word is split, too. */
function wordsIn(text: string): readonly string[] {
  return text.match(/\s*\S{1,16}|\s+/gu) ?? []
}
