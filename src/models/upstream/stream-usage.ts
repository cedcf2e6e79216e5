import type { CompletionRequest } from '../../openai/completion-request.ts'
import type { ReadRefusal } from './errors.ts'

/** The most models that are remembered. Callers choose the model ids behind a prefix, so the number of ids has no bound. */
const maxModels = 1000

type StreamOptions = NonNullable<CompletionRequest['stream_options']>

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

  /** The options of a stream, with the option or without it if the model or the whole service is known to refuse it. */
  optionsFor({ model, stream_options: options }: CompletionRequest): StreamOptions | undefined {
    if (!this.#isAsked || this.#refusing.has(model)) return withoutUsage(options)
    return { ...options, include_usage: true }
  }

  /**
   * Whether to send the request again without options, after a refusal that names the option. Other options of the caller may have
   * caused the refusal too, so a request with other options is not sent again.
   */
  mayRetry(asked: StreamOptions | undefined, { body: said }: ReadRefusal): boolean {
    const isOnlyOption = asked?.include_usage === true && withoutUsage(asked) === undefined
    return isOnlyOption && /stream_options|include_usage/i.test(said)
  }

  /** To be called when a request without the option has succeeded. Later requests to the same model do not get the option. */
  rememberRefusal({ model }: CompletionRequest): void {
    if (this.#refusing.size >= maxModels) this.#refusing.clear()
    this.#refusing.add(model)
  }
}

function withoutUsage(options: CompletionRequest['stream_options']): StreamOptions | undefined {
  const { include_usage: _asked, ...others } = options ?? {}
  return Object.keys(others).length > 0 ? others : undefined
}
