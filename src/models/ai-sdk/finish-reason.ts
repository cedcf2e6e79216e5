import type { LanguageModelV4FinishReason } from '@ai-sdk/provider'
import { ApiError } from '../../errors.ts'
import type { FinishReason } from '../../openai/finish-reasons.ts'
import { brokenOff } from '../upstream/errors.ts'

/**
 * Translates the reason why an answer ended (`LanguageModelV4FinishReason`; v3 has a subset of these reasons).
 * @param hasCalls whether the answer calls tools of the client
 * @param isEmpty whether the answer has neither text nor calls
 * @throws ApiError 502 for an answer that failed or was cut off, or whose reason is missing
 */
export function toFinishReason(reason: LanguageModelV4FinishReason, hasCalls: boolean, isEmpty: boolean): FinishReason {
  switch (reason.unified) {
    case 'stop':
    case 'tool-calls':
      return hasCalls ? 'tool_calls' : 'stop'
    case 'length':
      return 'length'
    case 'content-filter':
      return 'content_filter'
    case 'other':
      // The AI SDK does not know the provider's reason. If the answer has content, it has ended normally.
      if (reason.raw !== undefined && !isEmpty) return hasCalls ? 'tool_calls' : 'stop'
      throw brokenOff()
    default:
      throw reason.unified === 'error'
        ? new ApiError(502, 'upstream_error', 'The model reported an error instead of an answer. Ask again.')
        : brokenOff()
  }
}
