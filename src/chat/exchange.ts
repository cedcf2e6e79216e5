import type { Lorebook } from '../characters/lore/lorebook.ts'
import { compose } from '../characters/prompt/compose.ts'
import {
  type Composition,
  type DroppedCounts,
  type RequestTexts,
  TokenCounterNeeded,
} from '../characters/prompt/composition.ts'
import type { Persona, PromptSettings } from '../characters/prompt/settings.ts'
import { ignoredHeader } from '../http/ignored-params.ts'
import { checkInput } from '../models/content-kinds.ts'
import { mergeMessages } from '../models/merge-messages.ts'
import type { ModelRequest } from '../models/model.ts'
import { fitParameters, type ReplyBounds, replyBounds } from '../models/request-parameters.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import type { RequestFor } from '../models/routing/route.ts'
import { loadTokenizer } from '../models/tokenizer.ts'
import {
  type CompletionRequest,
  type Message,
  mostTokensOf,
  type ownFields,
  redirecting,
} from '../openai/completion-request.ts'
import type { Steps, Work } from '../work.ts'
import { chatNames, type SentNames } from './voice.ts'

/** What prompts are made with besides the request. */
export interface PromptMaking {
  readonly settings: PromptSettings
  readonly worldBooks: readonly Lorebook[]
  /** What the request brings into its prompt; undefined for nothing. */
  readonly texts?: RequestTexts | undefined
}

/** What one candidate is asked, and how its prompt came to be. */
export interface Asked {
  readonly request: ModelRequest
  readonly composition: Composition
  /** Parameters that were sent, and that the model's settings leave out. */
  readonly dropped: readonly string[]
  /** What bounds the reply, by the names that requests have for it. */
  readonly bounds: ReplyBounds
}

/** A request without the fields that are only ours. */
type Unowned = CompletionRequest & { readonly [name in (typeof ownFields)[number]]?: never }

/** One chat request on its way to a model: who is played, what is asked, and what of it could not be honoured. */
export class Exchange {
  readonly #sent: Unowned
  readonly #greeting: number | null | undefined
  readonly #conversationId: string | null | undefined
  readonly #persona: Persona
  readonly #making: PromptMaking
  readonly #work: Work
  readonly #more: Pick<ModelRequest, 'trace' | 'openHeld' | 'readAll'>
  readonly #asked = new Map<Candidate, Asked>()
  /** Parameters that a candidate turned out not to honour. */
  readonly #ignoredBy = new Map<Candidate, Set<string>>()
  /** Parameters that no candidate gets. */
  readonly #ignored = new Set<string>()
  readonly #names: SentNames

  /**
   * @param more what else a model's request has, of the one that came
   * @param names of the fields that were sent, where those are not chat's
   */
  constructor(
    body: CompletionRequest,
    persona: Persona,
    making: PromptMaking,
    work: Work,
    more: Pick<ModelRequest, 'trace' | 'openHeld' | 'readAll'> = {},
    names: SentNames = chatNames,
  ) {
    this.#names = names
    this.#more = more
    // The fields that are only ours: no upstream ever sees them. Taken out here, since an object that loses fields later gets slow.
    const {
      greeting,
      conversation_id,
      character: _c,
      user_name: _u,
      persona: _p,
      author_note: _a,
      lorebooks: _l,
      ...sent
    } = body
    for (const name of redirecting) {
      if (!Object.hasOwn(sent, name)) continue
      if (Reflect.get(sent, name) != null) this.#ignored.add(name)
      Reflect.deleteProperty(sent, name)
    }
    this.#sent = sent
    this.#greeting = greeting
    this.#conversationId = conversation_id
    this.#persona = persona
    this.#making = making
    this.#work = work
  }

  /**
   * What one candidate is asked: the character's prompt around the caller's messages, the operator's defaults for
   * parameters that were not sent, what the model's settings change of others, and the id that the model goes by upstream. Composed once for each candidate: what the
   * card draws by lot stays the same, and is there at once from then on.
   * @throws ApiError 400 when the candidate does not take what the messages hold, or not so much of it
   */
  ask(candidate: Candidate): Asked | Promise<Asked> {
    return this.#asked.get(candidate) ?? this.#composeFor(candidate)
  }

  async #composeFor(candidate: Candidate): Promise<Asked> {
    try {
      return await this.#compose(candidate)
    } catch (error) {
      if (!(error instanceof TokenCounterNeeded)) throw error
      const { countSteps } = await loadTokenizer()
      return await this.#compose(candidate, countSteps)
    }
  }

  /** The request that one candidate is asked with. @throws ApiError as `ask` */
  readonly requestFor: RequestFor = (candidate) => {
    const asked = this.ask(candidate)
    return asked instanceof Promise ? asked.then(({ request }) => request) : asked.request
  }

  /** What the reply headers say of the candidate that answers, and of what of the request it did not get. */
  headersFor(candidate: Candidate): Readonly<Record<string, string>> {
    const ignored = this.#ignoredOf(candidate)
    const dropped = this.#asked.get(candidate)?.composition.dropped
    return {
      'x-model': encodeURIComponent(candidate.traits.name),
      ...(ignored === undefined ? {} : { 'x-ignored-params': ignored }),
      ...(dropped ? droppedHeader(dropped) : {}),
    }
  }

  /** The messages that one candidate was asked with; none before that. */
  promptOf(candidate: Candidate): readonly Message[] {
    return this.#asked.get(candidate)?.request.body.messages ?? []
  }

  /** The parameters that were sent, with a value, to a model that cannot honour them; undefined when there is none. */
  #ignoredOf(candidate: Candidate): string | undefined {
    const { ignoredParameters } = candidate.model
    const dropped = this.#asked.get(candidate)?.dropped ?? []
    const ignored = [...this.#ignored, ...(this.#ignoredBy.get(candidate) ?? []), ...dropped]
    if (ignoredParameters) {
      const newNames = new Map(Object.entries(candidate.traits.params?.rename ?? {}))
      for (const [name, value] of Object.entries(this.#sent)) {
        if (value != null && ignoredParameters.has(newNames.get(name) ?? name)) ignored.push(name)
      }
    }
    const sent = [...this.#names.ignored, ...ignored.map((name) => this.#names.nameOf(name))]
    return sent.length > 0 ? ignoredHeader([...new Set(sent)]) : undefined
  }

  async #compose(candidate: Candidate, countSteps?: (text: string) => Steps<number>): Promise<Asked> {
    const { traits } = candidate
    if (traits.input) checkInput(this.#sent.messages, traits.name, traits.input)
    const { body: sent, dropped } = fitParameters(this.#sent, traits)
    const bounds = replyBounds(sent, traits)
    const { contextWindow, overflow } = traits
    const steps = compose({
      persona: this.#persona,
      messages: sent.messages,
      settings: this.#making.settings,
      worldBooks: this.#making.worldBooks,
      texts: this.#making.texts,
      replyTokens: mostTokensOf(bounds) ?? 0,
      greeting: this.#greeting ?? undefined,
      conversationId: this.#conversationId ?? undefined,
      contextWindow,
      overflow,
      countSteps,
    })
    const composition = await this.#work.run('messages', steps)
    const messages = traits.mergeMessages
      ? await this.#work.run('messages', mergeMessages(composition.messages))
      : composition.messages
    const ignored = new Set<string>()
    this.#ignoredBy.set(candidate, ignored)
    const request = {
      body: { ...sent, model: traits.upstreamId, messages },
      persona: this.#persona,
      composition,
      work: this.#work,
      onIgnored: (parameter: string) => void ignored.add(parameter),
      ...this.#more,
    }
    const asked = { request, composition, dropped, bounds }
    this.#asked.set(candidate, asked)
    return asked
  }
}

/** The reply header that says what of the prompt did not fit; none where all did. */
export function droppedHeader({ lore, examples, messages }: DroppedCounts): Readonly<Record<string, string>> {
  if (lore + examples + messages === 0) return {}
  return { 'x-dropped': `lore=${lore}, examples=${examples}, messages=${messages}` }
}
