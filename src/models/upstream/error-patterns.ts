import { maxSearchedLength, type UpstreamErrorBody } from './error-body.ts'

/*
 * Patterns of upstreams' error messages. They are for faults that have no code in OpenAI's API, and for faults that upstreams
 * report without this code. The sources of most messages are in docs/upstreams.md and, for Anthropic and Google, in
 * test/fixtures/.
 */

/**
 * The conversation is too long:
 * Anthropic ("prompt is too long: 208310 tokens > 200000 maximum", "input length and `max_tokens` exceed context limit"),
 * Google ("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
 * OpenAI, vLLM and Mistral ("This model's maximum context length is 8192 tokens."), xAI ("maximum prompt length"),
 * llama.cpp ("the request exceeds the available context size", "Context size has been exceeded."),
 * LM Studio ("Trying to keep the first 15857 tokens when context the overflows.", "The number of tokens to keep from the
 * initial prompt is greater than the context length", "Cannot truncate prompt with n_keep"),
 * TGI and Together ("`inputs` tokens + `max_new_tokens` must be <= 2048", "`inputs` must have less than 1024 tokens").
 */
const contextTooLong = new RegExp(
  [
    'prompt is too long',
    'exceeds? (?:the |your )?(?:available )?context (?:limit|size|window|length)',
    'context (?:size|length|window) (?:has been |was )?exceeded',
    'input token count.{0,40}exceeds the maximum',
    'maximum (?:context|prompt) length',
    'longer than the (?:maximum model length|model.s context length)',
    'trying to keep the first \\d+ tokens',
    'tokens to keep from the initial prompt is greater',
    'cannot truncate prompt with n_keep',
    'inputs` tokens \\+ `max_new_tokens` must be <=',
    'inputs` must have less than \\d+ tokens',
  ].join('|'),
  'i',
)
const contextCodes: ReadonlySet<string | undefined> = new Set(['context_length_exceeded', 'exceed_context_size_error'])

/**
 * The model does not take a kind of input:
 * llama.cpp ("image input is not supported", "Unsupported content part type: \"image_url\""), OpenRouter ("No endpoints
 * found that support image input"), vLLM ("At most 0 image(s) may be provided", "is not a multimodal model"),
 * DeepSeek ("unknown variant `image_url`, expected `text`"), OpenAI ("image_url is only supported by certain models").
 */
const unsupportedInput =
  /(?:image|audio|video) inputs? (?:is|are) not supported|that support (?:image|audio|video) input|(?:image_url|input_audio) is only supported by|at most 0 (?:image|audio|video)|is not a multimodal model|unknown variant `?(?:image_url|input_audio|file)\b|unsupported content part type/i

/**
 * The upstream reports a fault of the operator's key or account with a 400:
 * Google ("API key not valid. Please pass a valid API key.", "Please enable billing on your project in Google AI Studio."),
 * Anthropic ("Your credit balance is too low to access the Anthropic API.").
 */
const operatorsAccount = /API key (?:not valid|not found|expired)|enable billing|credit balance is too low/i

/**
 * Codes of a 429 for an account without credit or billing. Other 429s are rate limits. Google sends the same message for both
 * faults, and this message counts as a rate limit.
 */
const accountIsEmpty: ReadonlySet<string | undefined> = new Set([
  'insufficient_quota',
  'billing_not_active',
  'exceeded_current_quota_error',
])

/**
 * Codes and types of upstreams' errors. Only these may reach the log, because any other code may be a word of the conversation.
 * They are OpenAI's (developers.openai.com/api/docs/guides/error-codes, and the `code` of refused parameters), Anthropic's
 * (platform.claude.com/docs/en/api/errors), those of vLLM and llama.cpp, and this service's own as an upstream.
 */
const knownCodes: ReadonlySet<string> = new Set(
  `invalid_request_error invalid_api_key insufficient_quota billing_not_active exceeded_current_quota_error rate_limit_exceeded
  server_error model_not_found context_length_exceeded content_filter content_policy_violation invalid_prompt invalid_type
  invalid_value invalid_json invalid_image invalid_image_url invalid_function_parameters missing_required_parameter
  unknown_parameter unsupported_parameter unsupported_value unsupported_model string_above_max_length array_above_max_length
  authentication_error billing_error permission_error not_found_error request_too_large rate_limit_error api_error timeout_error
  overloaded_error invalid_request exceed_context_size_error unavailable_error not_supported_error BadRequestError
  AuthenticationError PermissionDeniedError NotFoundError UnprocessableEntityError RateLimitError InternalServerError
  unsupported_input unsupported_by_model upstream_refused`.split(/\s+/),
)

/** The code of an upstream's error, else its type, if it is a known one. */
export function knownCodeOf({
  code,
  type,
}: {
  code?: string | undefined
  type?: string | undefined
}): string | undefined {
  return [code, type].find((word) => word !== undefined && knownCodes.has(word))
}

/** Whether an upstream reports that the conversation is too long for its model. */
export function meansContextTooLong({ message = '', code, type }: UpstreamErrorBody): boolean {
  return contextCodes.has(code) || contextCodes.has(type) || matches(contextTooLong, message)
}

/** Whether an upstream reports that its model does not take a kind of content in the request. */
export function meansUnsupportedInput({ message = '' }: UpstreamErrorBody): boolean {
  return matches(unsupportedInput, message)
}

/** Whether an upstream reports a fault of the operator's key or account with a 400 or 429. */
export function isOperatorsAccount(status: number, { message = '', code, type }: UpstreamErrorBody): boolean {
  if (status === 400) return matches(operatorsAccount, message)
  return status === 429 && (accountIsEmpty.has(code) || accountIsEmpty.has(type))
}

function matches(pattern: RegExp, message: string): boolean {
  return pattern.test(message.slice(0, maxSearchedLength))
}
