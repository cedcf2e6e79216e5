import { ask } from '../base/api.ts'
import type { LedgerRecord } from '../ui/requests.ts'

/** A body for `/chat/completions`. */
export type ChatBody = Readonly<Record<string, unknown>>

/** The reply of `POST /chat/prompt`. */
export interface Prompt {
  readonly model: string
  readonly character: string | null
  readonly messages: readonly PromptMessage[]
  readonly tokens: { readonly total: number; readonly exact: boolean; readonly sections: readonly SectionTokens[] }
  readonly lore: readonly Lore[]
  readonly dropped: { readonly lore: number; readonly examples: number; readonly messages: number }
  readonly unknown_macros: readonly string[]
}

/** A message that the model gets. It may have fields that the page does not know. */
export interface PromptMessage {
  readonly role: string
  readonly name?: string
  readonly content?: unknown
  readonly tool_calls?: unknown
}

export interface SectionTokens {
  readonly section: string
  readonly tokens: number
}

/** A lore entry that fired, or that matched and was left out. */
export interface Lore {
  readonly entry: string
  readonly book: string
  readonly fired: boolean
  readonly keys?: readonly string[]
  readonly tokens: number
  readonly dropped?: string
}

/** A prompt, and the model that it was made for. */
export interface MadePrompt {
  readonly prompt: Prompt
  /** The name of the first candidate model that accepts the prompt. */
  readonly madeFor: string
}

/** Requests the prompt for a body of `/chat/completions`. @throws Failure */
export async function makePrompt(body: ChatBody, signal: AbortSignal): Promise<MadePrompt> {
  // Streaming does not change the prompt.
  const { stream: _stream, stream_options: _options, ...asked } = body
  const reply = await ask('chat/prompt', { method: 'POST', json: asked, signal })
  const prompt: Prompt = await reply.json()
  return { prompt, madeFor: decodeURIComponent(reply.headers.get('x-model') ?? '') }
}

/** The known differences between the prompt that is made now and the prompt that was sent. Each difference is a sentence. */
export function knownDifferences({ prompt, madeFor }: MadePrompt, record: LedgerRecord | undefined): string[] {
  if (!record || record.state === 'running') return []
  const { tokens, character } = prompt
  const found: string[] = []
  if (record.character !== character)
    found.push('The card has been changed since: this is made of the card as it is now.')
  if (record.model_used !== null && madeFor !== '' && record.model_used !== madeFor) {
    found.push(`“${record.model_used}” has answered, and this is made for “${madeFor}”, which is asked first.`)
  }
  if (record.tokens_exact && tokens.exact && record.prompt_tokens > 0 && record.prompt_tokens !== tokens.total) {
    found.push(`The model has read ${record.prompt_tokens} tokens, and this has ${tokens.total}.`)
  }
  return found
}

/** The text of a message. Other parts are named in brackets. */
export function textOfMessage({ content, tool_calls }: PromptMessage): string {
  const parts = Array.isArray(content) ? content.map(textOfPart) : [typeof content === 'string' ? content : '']
  const calls = tool_calls === undefined ? [] : [`[tool calls] ${JSON.stringify(tool_calls, undefined, 2)}`]
  return [...parts, ...calls].filter((text) => text !== '').join('\n')
}

function textOfPart(part: unknown): string {
  const field = (name: string): unknown => (typeof part === 'object' && part !== null ? Reflect.get(part, name) : '')
  const text = field('text')
  return typeof text === 'string' && text !== '' ? text : `[${String(field('type')).replaceAll('_', ' ')}]`
}
