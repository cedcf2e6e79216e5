import type { SharedV4ProviderMetadata } from '@ai-sdk/provider'
import type { Completion } from '../../openai/completion.ts'
import type { ToolCall } from '../../openai/completion-request.ts'
import { keptMetadata, type MessageExtra, type SignedReasoning } from './extra-content.ts'
import { toFinishReason } from './finish-reason.ts'
import type { GenerateResult } from './language-model.ts'

/** A tool call, with what its provider wants back. */
export interface TranslatedCall extends ToolCall {
  readonly extra_content?: SharedV4ProviderMetadata
}

type Choice = Completion['choices'][number]

/** A whole choice, with the fields that OpenAI's own has not. */
export interface TranslatedChoice extends Choice {
  readonly message: Choice['message'] & {
    readonly reasoning_content?: string
    readonly extra_content?: MessageExtra
  }
}

/**
 * Translates a whole answer (`LanguageModelV4GenerateResult`) to a choice. Text, reasoning and the calls of the client's
 * own tools are what OpenAI's shape can say; files, sources, and tools that the provider itself ran are left out.
 * @param wantsJson whether the request asked for JSON: then the provider may mark which text is the JSON
 */
export function toChoice(result: GenerateResult, index: number, wantsJson: boolean): TranslatedChoice {
  let text = ''
  let reasoning = ''
  const signed: SignedReasoning[] = []
  const calls: TranslatedCall[] = []
  for (const part of result.content) {
    if (part.type === 'text') text += part.text
    if (part.type === 'reasoning') {
      reasoning += part.text
      const provider = keptMetadata(part.providerMetadata)
      if (provider) signed.push({ text: part.text, provider })
    }
    if (part.type === 'tool-call' && !part.providerExecuted) {
      const extra = keptMetadata(part.providerMetadata)
      calls.push({
        id: part.toolCallId,
        type: 'function',
        function: { name: part.toolName, arguments: part.input },
        ...(extra === undefined ? {} : { extra_content: extra }),
      })
    }
  }
  const content = (wantsJson ? result.structuredOutputText : undefined) ?? text
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
