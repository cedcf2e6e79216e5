import type { Lorebook } from '../characters/lore/lorebook.ts'
import { compose } from '../characters/prompt/compose.ts'
import {
  type Composition,
  type CompositionRequest,
  type DroppedCounts,
  type RequestTexts,
  TokenCounterNeeded,
} from '../characters/prompt/composition.ts'
import type { Persona, PromptSettings } from '../characters/prompt/settings.ts'
import { type HeldBytes, smallBytes } from '../http/bytes-in-flight.ts'
import { ignoredHeader } from '../http/ignored-params.ts'
import { checkInput } from '../models/content-kinds.ts'
import { mergeMessages } from '../models/merge-messages.ts'
import type { ModelRequest } from '../models/model.ts'
import { checkSentParameters, fitParameters, type ReplyBounds, replyBounds } from '../models/request-parameters.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import type { RequestFor } from '../models/routing/route.ts'
import { loadTokenizer } from '../models/tokenizer.ts'
import { type CompletionRequest, type Message, maxReplyTokensOf, type ownFields } from '../openai/completion-request.ts'
import { checkPublicUrls } from '../openai/public-urls.ts'
import { removedParameters } from '../openai/refused-parameters.ts'
import type { Steps, Work } from '../work.ts'
import { chatNames, type SentNames } from './reply-format.ts'

/** The sources of a prompt besides the messages of the request. */
export interface PromptSources {
  readonly settings: PromptSettings
  readonly worldBooks: readonly Lorebook[]
  /** Texts that the request brings for its prompt; undefined for none. */
  readonly texts?: RequestTexts | undefined
}

/** The request to one candidate, and how its prompt was composed. */
export interface ComposedRequest {
  readonly request: ModelRequest
  readonly composition: Composition
  /** The parameters of the request that the model's settings drop. */
  readonly dropped: readonly string[]
  /** The bounds of the reply, under the names of the request fields. */
  readonly bounds: ReplyBounds
}

/** A request without the fields that only Conservatory knows. */
type UpstreamFields = CompletionRequest & { readonly [name in (typeof ownFields)[number]]?: never }

/** What the composer needs besides the body and the prompt: fields of a model's request that come from the HTTP request. */
interface RequestDetails extends Pick<ModelRequest, 'trace' | 'openHeld' | 'readAll' | 'isRewritten' | 'onSent'> {
  /** Whether the key or its account has a list of models. Then no parameter may choose another model. */
  readonly hasModelList?: boolean
}

/** Composes the requests to the candidates of a chat request. Reports the parameters that a candidate does not honour. */
export class RequestComposer {
  readonly #sent: UpstreamFields
  readonly #greeting: number | null | undefined
  readonly #conversationId: string | null | undefined
  readonly #persona: Persona
  readonly #sources: PromptSources
  readonly #work: Work
  readonly #more: Omit<RequestDetails, 'hasModelList'>
  readonly #hasModelList: boolean
  readonly #composed = new Map<Candidate, ComposedRequest>()
  /** Parameters that the candidate's adapter has reported as not honoured. */
  readonly #ignoredBy = new Map<Candidate, Set<string>>()
  /** Parameters that no candidate gets. */
  readonly #ignored = new Set<string>()
  readonly #names: SentNames

  /**
   * @param names the field names as the client sent them; by default the names of chat
   */
  constructor(
    body: CompletionRequest,
    persona: Persona,
    sources: PromptSources,
    work: Work,
    { hasModelList = false, ...more }: RequestDetails = {},
    names: SentNames = chatNames,
  ) {
    this.#names = names
    this.#more = more
    this.#hasModelList = hasModelList
    // No upstream may see the fields that only Conservatory knows. The other fields are copied: V8 is slow with an object from
    // which fields were deleted.
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
    // Few requests have these fields, so deleting them is cheaper than another copy.
    for (const name of removedParameters) {
      if (!Object.hasOwn(sent, name)) continue
      if (Reflect.get(sent, name) != null) this.#ignored.add(name)
      Reflect.deleteProperty(sent, name)
    }
    this.#sent = sent
    this.#greeting = greeting
    this.#conversationId = conversation_id
    this.#persona = persona
    this.#sources = sources
    this.#work = work
  }

  /**
   * The request to one candidate: the character's prompt around the caller's messages, the operator's defaults for
   * parameters that were not sent, the parameters that the model's settings change, and the model's id upstream.
   * The request is composed once for each candidate, so that the card's random choices stay the same.
   * @throws ApiError 400 if the candidate does not accept a parameter, a URL or a kind of content, if the prompt is too long for it, or if composing
   *   takes too much work; 503 under overload
   */
  composedFor(candidate: Candidate): ComposedRequest | Promise<ComposedRequest> {
    return this.#composed.get(candidate) ?? this.#composeFor(candidate)
  }

  async #composeFor(candidate: Candidate): Promise<ComposedRequest> {
    try {
      return await this.#compose(candidate)
    } catch (error) {
      if (!(error instanceof TokenCounterNeeded)) throw error
      const { countSteps } = await loadTokenizer()
      return await this.#compose(candidate, countSteps)
    }
  }

  /** The request to one candidate. @throws ApiError as `composedFor` */
  readonly requestFor: RequestFor = (candidate) => {
    const composed = this.composedFor(candidate)
    return composed instanceof Promise ? composed.then(({ request }) => request) : composed.request
  }

  /**
   * The reply headers: the candidate that answers, the parameters that this candidate ignores, and the parts of the prompt that
   * did not fit.
   */
  headersFor(candidate: Candidate): Readonly<Record<string, string>> {
    const ignored = this.#ignoredOf(candidate)
    const dropped = this.#composed.get(candidate)?.composition.dropped
    return {
      'x-model': encodeURIComponent(candidate.traits.name),
      ...(ignored === undefined ? {} : { 'x-ignored-params': ignored }),
      ...(dropped ? droppedHeader(dropped) : {}),
    }
  }

  /** The messages that were composed for a candidate; empty before they are composed. */
  promptOf(candidate: Candidate): readonly Message[] {
    return this.#composed.get(candidate)?.request.body.messages ?? []
  }

  /** The value of `x-ignored-params`: the parameters that the model does not honour. Undefined if the model honours all. */
  #ignoredOf(candidate: Candidate): string | undefined {
    const { ignoredParameters } = candidate.model
    const dropped = this.#composed.get(candidate)?.dropped ?? []
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

  /** Composes a prompt. The memory that this takes counts as bytes in flight until the prompt is composed. */
  async #composition(request: CompositionRequest): Promise<Composition> {
    let bytes = 0
    let held: HeldBytes | undefined
    const onMemory = (more: number) => {
      bytes += more
      if (bytes <= smallBytes) return
      held ??= this.#more.openHeld?.()
      held?.setMemory(bytes)
    }
    try {
      return await this.#work.run('messages', compose({ ...request, onMemory }))
    } finally {
      held?.release()
    }
  }

  async #compose(candidate: Candidate, countSteps?: (text: string) => Steps<number>): Promise<ComposedRequest> {
    const { traits } = candidate
    checkSentParameters(this.#sent, traits, this.#hasModelList)
    if (!traits.privateUrls) checkPublicUrls(this.#sent.messages)
    if (traits.input) checkInput(this.#sent.messages, traits.name, traits.input)
    const { body: sent, dropped } = fitParameters(this.#sent, traits)
    const bounds = replyBounds(sent, traits)
    const { contextWindow, overflow } = traits
    const composition = await this.#composition({
      persona: this.#persona,
      messages: sent.messages,
      settings: this.#sources.settings,
      worldBooks: this.#sources.worldBooks,
      texts: this.#sources.texts,
      replyTokens: maxReplyTokensOf(bounds) ?? 0,
      greeting: this.#greeting ?? undefined,
      conversationId: this.#conversationId ?? undefined,
      contextWindow,
      overflow,
      countSteps,
    })
    const messages = traits.mergeMessages
      ? await this.#work.run('messages', mergeMessages(composition.messages))
      : composition.messages
    const ignored = new Set<string>()
    this.#ignoredBy.set(candidate, ignored)
    const request: ModelRequest = {
      body: { ...sent, model: traits.upstreamId, messages },
      persona: this.#persona,
      composition,
      work: this.#work,
      onIgnored: (parameter: string) => void ignored.add(parameter),
      ...this.#more,
    }
    const composed = { request, composition, dropped, bounds }
    this.#composed.set(candidate, composed)
    return composed
  }
}

/** The reply header `x-dropped`, which counts the parts of the prompt that did not fit; no header if all parts fitted. */
export function droppedHeader({ lore, examples, messages }: DroppedCounts): Readonly<Record<string, string>> {
  if (lore + examples + messages === 0) return {}
  return { 'x-dropped': `lore=${lore}, examples=${examples}, messages=${messages}` }
}
