import { composePrompt, type Persona, type PromptSettings } from '../characters/prompt.ts'
import type { Candidate } from '../models/candidate.ts'
import { checkInput } from '../models/input.ts'
import { mergeMessages } from '../models/merge-messages.ts'
import type { Model, ModelRequest } from '../models/model.ts'
import type { CompletionRequest } from './completion.ts'

/** One chat request on its way to a model: who is played, what is asked, and which of it could not be honoured. */
export class Exchange {
  readonly #body: CompletionRequest
  readonly #persona: Persona
  readonly #settings: PromptSettings
  readonly #ignored = new Set<string>()
  readonly #onIgnored = (parameter: string) => void this.#ignored.add(parameter)

  constructor(body: CompletionRequest, persona: Persona, settings: PromptSettings) {
    // The fields that are only ours: no upstream ever sees them.
    const { character: _character, user_name: _userName, ...rest } = body
    this.#body = rest
    this.#persona = persona
    this.#settings = settings
  }

  /**
   * Makes what one candidate is asked: the character's prompt before the caller's messages, the operator's defaults for
   * parameters that were not sent, and the id that the model goes by upstream.
   * @throws ApiError 400 when the candidate does not take what the messages hold
   */
  requestFor({ traits }: Candidate): ModelRequest {
    checkInput(this.#body.messages, traits)
    const composed = composePrompt(this.#persona, this.#body.messages, this.#settings)
    const messages = traits.mergeMessages ? mergeMessages(composed) : composed
    const sent = traits.defaults ? withDefaults(this.#body, traits.defaults) : this.#body
    return { body: { ...sent, model: traits.upstreamId, messages }, persona: this.#persona, onIgnored: this.#onIgnored }
  }

  /** The parameters that were sent, with a value, to a model that cannot honour them; undefined when there is none. */
  ignoredBy({ ignoredParameters }: Model): string | undefined {
    if (ignoredParameters) {
      for (const [name, value] of Object.entries(this.#body)) {
        if (value != null && ignoredParameters.has(name)) this.#ignored.add(name)
      }
    }
    return this.#ignored.size > 0 ? ignoredHeader([...this.#ignored]) : undefined
  }
}

/** How long the reply header `x-ignored-params` may be: clients refuse headers beyond some 16 KiB in all. */
const longestHeader = 4096

/** Names as the reply header `x-ignored-params` carries them; where there are too many, how many more there are. */
function ignoredHeader(names: readonly string[]): string {
  const written = names.map((name) => encodeURIComponent(name.toWellFormed()))
  let length = 0
  const firstTooMany = written.findIndex((name) => {
    length += name.length + 1
    return length > longestHeader
  })
  const fitting = firstTooMany === -1 ? written : written.slice(0, firstTooMany)
  const more = written.length - fitting.length
  return [...fitting, ...(more > 0 ? [`+${more}`] : [])].join(',')
}

/** A parameter that was sent as null was not sent. */
function withDefaults<T extends object>(sent: T, defaults: Readonly<Record<string, unknown>>): T {
  const missing = Object.entries(defaults).filter(
    ([name]) => !Object.entries(sent).some(([key, value]) => key === name && value != null),
  )
  return { ...sent, ...Object.fromEntries(missing) }
}
