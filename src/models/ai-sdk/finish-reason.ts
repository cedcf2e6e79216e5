import type { LanguageModelV4FinishReason } from '@ai-sdk/provider'
import type { FinishReason } from '../../openai/finish-reasons.ts'
import { brokenOff, upstreamFailure } from '../upstream/errors.ts'

/**
 * Translates why an answer ended (`LanguageModelV4FinishReason`; v3's reasons are some of them).
 * @param hasCalls whether it calls tools that the client has
 * @param isEmpty whether it says nothing at all
 * @throws ApiError 502 when it did not end by itself: it failed, was cut off, or nobody says why it is over
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
      // The provider gave a reason that the AI SDK has no word for: an end all the same, if there is an answer.
      if (reason.raw !== undefined && !isEmpty) return hasCalls ? 'tool_calls' : 'stop'
      throw brokenOff()
    default:
      throw reason.unified === 'error'
        ? upstreamFailure(502, 'upstream_error', 'The model reported an error instead of an answer. Ask again.')
        : brokenOff()
  }
}
