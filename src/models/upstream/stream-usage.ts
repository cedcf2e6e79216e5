import type { CompletionRequest } from '../../openai/completion-request.ts'
import type { UpstreamRefusal } from './errors.ts'

/** How many models are remembered: behind a prefix their ids are the callers' choice. */
const maxModels = 1000

/** Asks streams for their usage, which is told at the end only then, and remembers the models whose service refuses to be asked. */
export class StreamUsage {
  readonly #isAsked: boolean
  readonly #refusing = new Set<string>()

  /** @param isAsked false for a service that the operator knows to refuse it */
  constructor(isAsked = true) {
    this.#isAsked = isAsked
  }

  /** What a stream is asked with. */
  withUsage(body: CompletionRequest): CompletionRequest {
    if (!this.#isAsked || this.#refusing.has(body.model)) return withoutUsage(body)
    return { ...body, stream_options: { ...body.stream_options, include_usage: true } }
  }

  /**
   * What a stream that was refused is asked with once more: without the question for usage, where that is what was refused;
   * else undefined. Options of the caller's own may be at fault themselves.
   */
  retryWithoutUsage(asked: CompletionRequest, { body: said }: UpstreamRefusal): CompletionRequest | undefined {
    const again = withoutUsage(asked)
    const isOnlyOption = asked.stream_options?.include_usage === true && again.stream_options === undefined
    return isOnlyOption && /stream_options|include_usage/i.test(said) ? again : undefined
  }

  /** A model that refused has answered without being asked for usage: it is not asked for that any more. */
  rememberRefusal({ model }: CompletionRequest): void {
    if (this.#refusing.size >= maxModels) this.#refusing.clear()
    this.#refusing.add(model)
  }
}

function withoutUsage({ stream_options: options, ...body }: CompletionRequest): CompletionRequest {
  const { include_usage: _asked, ...others } = options ?? {}
  return Object.keys(others).length > 0 ? { ...body, stream_options: others } : body
}
