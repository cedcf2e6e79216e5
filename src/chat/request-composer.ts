import { bufferOf } from '../bytes.ts'
import type { KeptBook } from '../characters/lore/kept-book.ts'
import { hasPatterns } from '../characters/lore/request-books.ts'
import type {
  CompositionRequest,
  DroppedCounts,
  Persona,
  PromptSettings,
  RequestTexts,
} from '../characters/prompt/composition.ts'
import { ignoredHeader } from '../http/ignored-params.ts'
import { checkInput } from '../models/content-kinds.ts'
import type { ComposedParts, ModelRequest, SentPrompt } from '../models/model.ts'
import { checkSentParameters, fitParameters, type ReplyBounds, replyBounds } from '../models/request-parameters.ts'
import type { Candidate } from '../models/routing/candidate.ts'
import type { RequestFor } from '../models/routing/route.ts'
import { type CompletionRequest, type Message, maxReplyTokensOf, type ownFields } from '../openai/completion-request.ts'
import type { PromptSize } from '../openai/message-sizes.ts'
import { checkPublicUrls } from '../openai/public-urls.ts'
import { removedParameters } from '../openai/refused-parameters.ts'
import type { Work } from '../work/work.ts'
import { type ComposedPrompt, composeJob, type PromptInput } from './compose-job.ts'
import type { ReceiptAbout, SizedReceipt } from './receipt.ts'
import { chatNames, type SentNames } from './reply-format.ts'

/** The sources of a prompt besides the messages of the request. */
export interface PromptSources {
  readonly settings: PromptSettings
  readonly worldBooks: readonly KeptBook[]
  /** Texts that the request brings for its prompt; undefined for none. */
  readonly texts?: RequestTexts | undefined
}

/** The request to one candidate, and how its prompt was composed. */
export interface ComposedRequest {
  readonly request: ModelRequest
  /** The numbers of parts that did not fit. */
  readonly droppedParts: DroppedCounts
  /** The size of the prompt, if a worker has composed it. */
  readonly size: PromptSize | undefined
  /** The parameters of the request that the model's settings drop. */
  readonly dropped: readonly string[]
  /** Parameters that the candidate's adapter has reported as not honoured. */
  readonly ignored: ReadonlySet<string>
  /** The bounds of the reply, under the names of the request fields. */
  readonly bounds: ReplyBounds
  /** The receipt, if the composer makes receipts. */
  readonly receipt: SizedReceipt | undefined
}

/** A request without the fields that only Conservatory knows. */
type UpstreamFields = CompletionRequest & { readonly [name in (typeof ownFields)[number]]?: never }

/** What the composer needs besides the body and the prompt: fields of a model's request that come from the HTTP request. */
interface RequestDetails extends Pick<ModelRequest, 'trace' | 'openHeld' | 'readAll' | 'isRewritten' | 'onSent'> {
  /** Whether the key or its account has a list of models. Then no parameter may choose another model. */
  readonly hasModelList?: boolean
  /** Whether the body is so large that a worker composes the prompt. */
  readonly isLarge?: boolean
  /** The seed of the card's random choices. */
  readonly randomSeed?: string
  /** What a receipt says besides the prompt, except the model's id upstream. Without it, no receipt is made. */
  readonly receipt?: Omit<ReceiptAbout, 'upstreamId'>
}

/** The job that also counts tokens. Its module loads the tokenizer, so it is loaded when a prompt first needs it. */
let counted: typeof import('./compose-counted-job.ts') | undefined

/** Composes the requests to the candidates of a chat request. Reports the parameters that a candidate does not honour. */
export class RequestComposer {
  readonly #body: CompletionRequest
  readonly #sent: UpstreamFields
  readonly #persona: Persona
  readonly #sources: PromptSources
  readonly #work: Work
  readonly #details: RequestDetails
  readonly #names: SentNames
  /** Whether a worker composes: the body or a source is large, or a lorebook has regular expressions. */
  readonly #isHeavy: boolean
  /** The seed of random draws and the time are the same for all candidates, and wherever the prompt is composed. */
  readonly #randomSeed: string
  readonly #now = new Date()
  readonly #composed = new Map<Candidate, ComposedRequest>()
  /** Parameters that no candidate gets. */
  readonly #ignored: string[] = []

  /**
   * @param names the field names as the client sent them; by default the names of chat
   */
  constructor(
    body: CompletionRequest,
    persona: Persona,
    sources: PromptSources,
    work: Work,
    details: RequestDetails = {},
    names: SentNames = chatNames,
  ) {
    this.#body = body
    this.#names = names
    this.#details = details
    this.#persona = persona
    this.#sources = sources
    this.#work = work
    this.#randomSeed = details.randomSeed ?? String(Math.random())
    this.#isHeavy =
      details.isLarge === true ||
      persona.card?.isHeavy === true ||
      sources.worldBooks.some(({ isHeavy }) => isHeavy) ||
      hasPatterns(sources.texts?.lorebooks ?? [])
    // No upstream may see the fields that only Conservatory knows. The other fields are copied: V8 is slow with an object from
    // which fields were deleted.
    const {
      greeting: _g,
      conversation_id: _i,
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
      if (Reflect.get(sent, name) != null) this.#ignored.push(name)
      Reflect.deleteProperty(sent, name)
    }
    this.#sent = sent
  }

  /**
   * The request to one candidate: the character's prompt around the caller's messages, the operator's defaults for
   * parameters that were not sent, the parameters that the model's settings change, and the model's id upstream.
   * The request is composed once for each candidate, so that the card's random choices stay the same.
   * @throws ApiError 400 if the candidate does not accept a parameter, a URL or a kind of content, if the prompt is too long for it, or if composing
   *   takes too much work; 503 under overload
   */
  readonly requestFor: RequestFor = (candidate) => {
    const composed = this.#composed.get(candidate) ?? this.#compose(candidate)
    return composed instanceof Promise ? composed.then(({ request }) => request) : composed.request
  }

  /** What `requestFor` has composed for a candidate. */
  composedFor(candidate: Candidate): ComposedRequest {
    const composed = this.#composed.get(candidate)
    if (!composed) throw new Error(`No request was composed for ${candidate.traits.name}.`)
    return composed
  }

  /**
   * The reply headers: the candidate that answers, the parameters that this candidate ignores, and the parts of the prompt that
   * did not fit.
   */
  headersFor(candidate: Candidate): Readonly<Record<string, string>> {
    const composed = this.composedFor(candidate)
    const ignored = this.#ignoredOf(candidate, composed)
    return {
      'x-model': encodeURIComponent(candidate.traits.name),
      ...(ignored === undefined ? {} : { 'x-ignored-params': ignored }),
      ...droppedHeader(composed.droppedParts),
    }
  }

  /** The messages that were composed for a candidate. */
  promptOf(candidate: Candidate): SentPrompt {
    const { request, size } = this.composedFor(candidate)
    if (!size) return request.body
    return {
      size,
      messagesJson: request.messagesJson,
      get messages() {
        return request.body.messages
      },
    }
  }

  /** The value of `x-ignored-params`: the parameters that the model does not honour. Undefined if the model honours all. */
  #ignoredOf({ model, traits }: Candidate, { dropped, ignored: reported }: ComposedRequest): string | undefined {
    const ignored = [...this.#ignored, ...reported, ...dropped]
    if (model.ignoredParameters) {
      const newNames = new Map(Object.entries(traits.params?.rename ?? {}))
      for (const [name, value] of Object.entries(this.#sent)) {
        if (value != null && model.ignoredParameters.has(newNames.get(name) ?? name)) ignored.push(name)
      }
    }
    if (ignored.length + this.#names.ignored.length === 0) return undefined
    const sent = [...this.#names.ignored, ...ignored.map((name) => this.#names.nameOf(name))]
    return ignoredHeader([...new Set(sent)])
  }

  #compose(candidate: Candidate): ComposedRequest | Promise<ComposedRequest> {
    const { traits, model } = candidate
    const { receipt: about, hasModelList = false } = this.#details
    checkSentParameters(this.#sent, traits, hasModelList)
    if (!traits.privateUrls) checkPublicUrls(this.#sent.messages)
    if (traits.input) checkInput(this.#sent.messages, traits.name, traits.input)
    const { body: fitted, dropped } = fitParameters(this.#sent, traits)
    const bounds = replyBounds(fitted, traits)
    const { contextWindow, overflow, upstreamId, roles, mergeMessages } = traits
    const request: CompositionRequest = {
      persona: this.#persona,
      messages: fitted.messages,
      settings: this.#sources.settings,
      worldBooks: this.#sources.worldBooks,
      texts: this.#sources.texts,
      replyTokens: maxReplyTokensOf(bounds) ?? 0,
      greeting: this.#body.greeting ?? undefined,
      conversationId: this.#body.conversation_id ?? undefined,
      contextWindow,
      overflow,
      randomSeed: this.#randomSeed,
      now: this.#now,
      wantsParts: model.readsParts === true || about !== undefined,
    }
    const keep = (prompt: ComposedPrompt): ComposedRequest => {
      const ignored = new Set<string>()
      const { dropped: droppedParts, size, receipt } = prompt
      const sent = this.#requestOf({ ...fitted, model: upstreamId }, prompt, ignored)
      const composed = { request: sent, droppedParts, size, dropped, ignored, bounds, receipt }
      this.#composed.set(candidate, composed)
      return composed
    }
    const shape = { roles, mergeMessages }
    const prompt = this.#prompt({ request, shape, receipt: about && { ...about, upstreamId } })
    return prompt instanceof Promise ? prompt.then(keep) : keep(prompt)
  }

  /** Composes here, or in a worker if the prompt is heavy. */
  #prompt(input: PromptInput): ComposedPrompt | Promise<ComposedPrompt> {
    const { receipt, request } = input
    const needsCounts = receipt !== undefined || (this.#isHeavy && request.contextWindow !== undefined)
    if (counted === undefined && needsCounts) return this.#countedPrompt(input)
    const composed = this.#run(counted?.composeCountedJob ?? composeJob, input)
    if (!(composed instanceof Promise)) return composed ?? this.#countedPrompt(input)
    return composed.then((prompt) => prompt ?? this.#countedPrompt(input))
  }

  async #countedPrompt(input: PromptInput): Promise<ComposedPrompt> {
    counted ??= await import('./compose-counted-job.ts')
    const prompt = await this.#run(counted.composeCountedJob, input)
    if (!prompt) throw new Error('The job that counts tokens has not counted them.')
    return prompt
  }

  #run(job: typeof composeJob, input: PromptInput): ComposedPrompt | null | Promise<ComposedPrompt | null> {
    return this.#isHeavy ? this.#work.runInPool('messages', job, input) : this.#work.run('messages', job, input)
  }

  #requestOf(
    fields: Omit<CompletionRequest, 'messages'>,
    { messages, parts }: ComposedPrompt,
    ignored: Set<string>,
  ): ModelRequest {
    const { trace, openHeld, readAll, isRewritten, onSent } = this.#details
    const isJson = messages instanceof Uint8Array
    return {
      body: isJson ? withLazyMessages(fields, messages) : { ...fields, messages },
      messagesJson: isJson ? messages : undefined,
      persona: this.#persona,
      composition: parts instanceof Uint8Array ? partsIn(parts) : parts,
      work: this.#work,
      onIgnored: (parameter) => ignored.add(parameter),
      trace,
      openHeld,
      readAll,
      isRewritten,
      onSent,
    }
  }
}

/** A body whose first read of `messages` parses their JSON. */
function withLazyMessages(fields: Omit<CompletionRequest, 'messages'>, json: Uint8Array): CompletionRequest {
  let messages: readonly Message[] | undefined
  return {
    ...fields,
    get messages() {
      messages ??= messagesIn(json)
      return messages
    },
  }
}

function messagesIn(json: Uint8Array): readonly Message[] {
  return JSON.parse(bufferOf(json).toString())
}

function partsIn(json: Uint8Array): ComposedParts {
  return JSON.parse(bufferOf(json).toString())
}

/** The reply header `x-dropped`, which counts the parts of the prompt that did not fit; no header if all parts fitted. */
export function droppedHeader({ lore, examples, messages }: DroppedCounts): Readonly<Record<string, string>> {
  if (lore + examples + messages === 0) return {}
  return { 'x-dropped': `lore=${lore}, examples=${examples}, messages=${messages}` }
}
