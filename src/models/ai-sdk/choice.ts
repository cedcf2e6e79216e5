import type { SharedV4ProviderMetadata } from '@ai-sdk/provider'
import type { Completion } from '../../openai/completion.ts'
import type { FunctionCall } from '../../openai/tool-fields.ts'
import { type MessageExtra, opaqueMetadata, type SignedReasoning } from './extra-content.ts'
import { toFinishReason } from './finish-reason.ts'
import type { Content, GenerateResult } from './language-model.ts'

/** A tool call, with the metadata that the client must send back to the provider. */
export interface TranslatedCall extends FunctionCall {
  readonly extra_content?: SharedV4ProviderMetadata
}

type Choice = Completion['choices'][number]

/** A whole choice. OpenAI's API does not have the fields `reasoning_content` and `extra_content`. */
export interface TranslatedChoice extends Choice {
  readonly message: Choice['message'] & {
    readonly reasoning_content?: string
    readonly extra_content?: MessageExtra
  }
}

/**
 * Translates a whole answer (`LanguageModelV4GenerateResult`) to a choice: text, reasoning, and calls of the client's own tools.
 * Files, sources, and calls of tools that the provider ran are left out, because OpenAI's shape has no place for them.
 * @param wantsJson whether the request asked for JSON. Then the provider may say which text is the JSON
 * @throws ApiError 502 for an answer that failed or was cut off
 */
export function toChoice(result: GenerateResult, index: number, wantsJson: boolean): TranslatedChoice {
  const reasoning = textOf(result.content, 'reasoning')
  const signed = signedIn(result.content)
  const calls = callsIn(result.content)
  const content = (wantsJson ? result.structuredOutputText : undefined) ?? textOf(result.content, 'text')
  return {
    index,
    message: {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      refusal: null,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(signed.length === 0 ? {} : { extra_content: { reasoning: signed } }),
    },
    logprobs: null,
    finish_reason: toFinishReason(result.finishReason, calls.length > 0, content === '' && calls.length === 0),
  }
}

/** The pieces of one kind, joined. */
function textOf(content: readonly Content[], kind: 'text' | 'reasoning'): string {
  let text = ''
  for (const part of content) if (part.type === kind) text += part.text
  return text
}

function signedIn(content: readonly Content[]): readonly SignedReasoning[] {
  const signed: SignedReasoning[] = []
  for (const part of content) {
    if (part.type !== 'reasoning') continue
    const provider = opaqueMetadata(part.providerMetadata)
    if (provider) signed.push({ text: part.text, provider })
  }
  return signed
}

/** The calls of the client's own tools. */
function callsIn(content: readonly Content[]): TranslatedCall[] {
  const calls: TranslatedCall[] = []
  for (const part of content) if (part.type === 'tool-call' && !part.providerExecuted) calls.push(toToolCall(part))
  return calls
}

function toToolCall(part: Extract<Content, { readonly type: 'tool-call' }>): TranslatedCall {
  const extra = opaqueMetadata(part.providerMetadata)
  return {
    id: part.toolCallId,
    type: 'function',
    function: { name: part.toolName, arguments: part.input },
    ...(extra === undefined ? {} : { extra_content: extra }),
  }
}
