import type { CompletionRequest } from '../../openai/completion-request.ts'
import type { ReadRefusal } from './errors.ts'

/** The most models that are remembered. Callers choose the model ids behind a prefix, so the number of ids has no bound. */
const maxModels = 1000

/**
 * Asks streams for a usage chunk at their end (`stream_options.include_usage`), and remembers the models whose service refuses
 * the option.
 */
export class StreamUsage {
  readonly #isAsked: boolean
  readonly #refusing = new Set<string>()

  /** @param isAsked false for a service that refuses the option, as the operator has set */
  constructor(isAsked = true) {
    this.#isAsked = isAsked
  }

  /** The request with the option, or without the option if the model or the whole service is known to refuse it. */
  withUsage(body: CompletionRequest): CompletionRequest {
    if (!this.#isAsked || this.#refusing.has(body.model)) return withoutUsage(body)
    return { ...body, stream_options: { ...body.stream_options, include_usage: true } }
  }

  /**
   * The request without the option, to be sent after a refusal. Undefined if the refusal does not name the option, if the request
   * did not have the option, or if the caller sent other stream options: then these may have caused the refusal.
   */
  retryWithoutUsage(asked: CompletionRequest, { body: said }: ReadRefusal): CompletionRequest | undefined {
    const again = withoutUsage(asked)
    const isOnlyOption = asked.stream_options?.include_usage === true && again.stream_options === undefined
    return isOnlyOption && /stream_options|include_usage/i.test(said) ? again : undefined
  }

  /** To be called when a request without the option has succeeded. Later requests to the same model do not get the option. */
  rememberRefusal({ model }: CompletionRequest): void {
    if (this.#refusing.size >= maxModels) this.#refusing.clear()
    this.#refusing.add(model)
  }
}

function withoutUsage({ stream_options: options, ...body }: CompletionRequest): CompletionRequest {
  const { include_usage: _asked, ...others } = options ?? {}
  return Object.keys(others).length > 0 ? { ...body, stream_options: others } : body
}
