import type { LanguageModelV4FinishReason, SharedV4ProviderMetadata } from '@ai-sdk/provider'
import { ApiError } from '../../errors.ts'
import type { Chunk } from '../../openai/completion.ts'
import { GrowingText } from '../../text.ts'
import { brokenOff, tooLarge } from '../upstream/errors.ts'
import type { CallNames } from './call-names.ts'
import { type MessageExtra, opaqueMetadata, type Picture, type SignedReasoning } from './extra-content.ts'
import { toFinishReason } from './finish-reason.ts'
import type { StreamPart } from './language-model.ts'
import { type DetailedUsage, toUsage } from './usage.ts'

/** The most tool calls in one answer. For a piece without an id and an index, some packages search all calls. */
const maxCalls = 1000

type Choice = Chunk['choices'][number]

/** A piece of a choice. OpenAI's API does not have the fields `reasoning_content`, `images` and `extra_content`. */
export interface TranslatedDelta extends Choice {
  readonly delta: Choice['delta'] & {
    readonly reasoning_content?: string
    readonly images?: readonly Picture[]
    readonly extra_content?: MessageExtra
  }
}

interface OpenCall {
  readonly index: number
  /** The arguments that the caller has already got. */
  readonly sent: GrowingText
}

interface OpenReasoning {
  readonly text: GrowingText
  provider: SharedV4ProviderMetadata | undefined
  readonly place: Pick<SignedReasoning, 'after_characters' | 'after_calls'>
}

type FilePart = Extract<StreamPart, { type: 'file' }>

function noPicture(mediaType: string): ApiError {
  const message = `The model answered with a file of the type ${JSON.stringify(mediaType)}, and only texts, calls and pictures can be passed on. Ask for a text.`
  return new ApiError(502, 'upstream_error', message)
}

/**
 * Translates one answer (`LanguageModelV4StreamPart`) to the pieces of one choice. Sources, and calls of tools that the provider
 * runs, are left out, because OpenAI's shape has no place for them.
 */
export class ChoiceStream {
  readonly #index: number
  readonly #calls = new Map<string, OpenCall>()
  readonly #names: CallNames
  readonly #reasoning = new Map<string, OpenReasoning>()
  readonly #foreignCalls = new Set<string>()
  #hasBegun = false
  /** Characters of the text so far. */
  #characters = 0
  #hasPictures = false
  #finish: LanguageModelV4FinishReason | undefined
  usage: DetailedUsage | undefined

  constructor(index: number, names: CallNames) {
    this.#index = index
    this.#names = names
  }

  /**
   * Translates a part to pieces, often to no piece or one piece. A piece with the role comes before the first piece.
   * @throws ApiError 502 for too many calls, and for a file that is no picture
   */
  next(part: StreamPart): readonly TranslatedDelta[] {
    switch (part.type) {
      case 'text-delta':
        return this.#addText(part.delta, opaqueMetadata(part.providerMetadata))
      case 'reasoning-start':
      case 'reasoning-delta':
      case 'reasoning-end':
        return this.#reason(part.id, 'delta' in part ? part.delta : '', part.providerMetadata)
      case 'tool-input-start':
        if (part.providerExecuted) this.#foreignCalls.add(part.id)
        return part.providerExecuted ? [] : this.#beginCall(part.id, part.toolName)
      case 'tool-input-delta':
        return this.#foreignCalls.has(part.id) ? [] : this.#addArguments(part.id, part.delta)
      case 'tool-call':
        if (part.providerExecuted || this.#foreignCalls.has(part.toolCallId)) return []
        return this.#endCall(part.toolCallId, part.toolName, part.input, opaqueMetadata(part.providerMetadata))
      case 'file':
        return this.#addPicture(part)
      case 'finish':
        // The last `finish` counts: an error or another `finish` can follow a `finish`.
        this.#finish = part.finishReason
        this.usage = toUsage(part.usage, this.#characters > 0 || this.#calls.size > 0)
        return []
      default:
        return []
    }
  }

  /**
   * The last piece, with the reason why the answer ended.
   * @throws ApiError 502 for an answer that failed or was cut off
   */
  end(): readonly TranslatedDelta[] {
    if (this.#finish === undefined) throw brokenOff()
    const isEmpty = this.#characters === 0 && !this.#hasPictures && this.#calls.size === 0
    const finishReason = toFinishReason(this.#finish, this.#calls.size > 0, isEmpty)
    const signed = [...this.#reasoning.values()].flatMap(({ text, provider, place }): readonly SignedReasoning[] =>
      provider ? [{ text: text.toString(), provider, ...place }] : [],
    )
    return this.#piece(signed.length === 0 ? {} : { extra_content: { reasoning: signed } }, finishReason)
  }

  #piece(
    delta: TranslatedDelta['delta'],
    finishReason: TranslatedDelta['finish_reason'] = null,
  ): readonly TranslatedDelta[] {
    const piece: TranslatedDelta = { index: this.#index, delta, logprobs: null, finish_reason: finishReason }
    if (this.#hasBegun) return [piece]
    this.#hasBegun = true
    const first: TranslatedDelta = {
      index: this.#index,
      delta: { role: 'assistant', content: '', refusal: null },
      logprobs: null,
      finish_reason: null,
    }
    return [first, piece]
  }

  #addText(text: string, signature: SharedV4ProviderMetadata | undefined): readonly TranslatedDelta[] {
    this.#characters += text.length
    // Gemini's signature of a text. Its place is behind the text.
    if (signature) this.#openReasoning(`text ${this.#characters}`).provider = signature
    return text === '' ? [] : this.#piece({ content: text })
  }

  #addPicture({ mediaType, data, providerMetadata }: FilePart): readonly TranslatedDelta[] {
    if (!mediaType.startsWith('image/')) throw noPicture(mediaType)
    const url = typeof data === 'object' && 'type' in data && data.type === 'url' ? data.url.href : undefined
    const bytes = typeof data === 'object' && 'type' in data && data.type === 'data' ? data.data : data
    const base64 =
      typeof bytes === 'string' ? bytes : bytes instanceof Uint8Array ? Buffer.from(bytes).toString('base64') : ''
    const extra = opaqueMetadata(providerMetadata)
    this.#hasPictures = true
    const image_url = { url: url ?? `data:${mediaType};base64,${base64}` }
    return this.#piece({ images: [{ type: 'image_url', image_url, ...(extra && { extra_content: extra }) }] })
  }

  #reason(id: string, text: string, metadata: unknown): readonly TranslatedDelta[] {
    const block = this.#openReasoning(id)
    block.text.add(text)
    block.provider = opaqueMetadata(metadata) ?? block.provider
    return text === '' ? [] : this.#piece({ reasoning_content: text })
  }

  #openReasoning(id: string): OpenReasoning {
    const known = this.#reasoning.get(id)
    if (known) return known
    const place = {
      ...(this.#characters > 0 && { after_characters: this.#characters }),
      ...(this.#calls.size > 0 && { after_calls: this.#calls.size }),
    }
    const begun = { text: new GrowingText(), provider: undefined, place }
    this.#reasoning.set(id, begun)
    return begun
  }

  #beginCall(id: string, name: string): readonly TranslatedDelta[] {
    const index = this.#calls.size
    if (index >= maxCalls) throw tooLarge()
    this.#calls.set(id, { index, sent: new GrowingText() })
    return this.#piece({
      tool_calls: [{ index, id, type: 'function', function: { name: this.#names.ownTool(name), arguments: '' } }],
    })
  }

  #addArguments(id: string, text: string): readonly TranslatedDelta[] {
    const call = this.#calls.get(id)
    if (call === undefined || text === '') return []
    call.sent.add(text)
    return this.#piece({ tool_calls: [{ index: call.index, function: { arguments: text } }] })
  }

  /** Ends a call: sends the arguments that have not been sent in pieces before. */
  #endCall(
    id: string,
    name: string,
    input: string,
    extra: SharedV4ProviderMetadata | undefined,
  ): readonly TranslatedDelta[] {
    const pieces = this.#calls.has(id) ? [] : [...this.#beginCall(id, name)]
    const call = this.#calls.get(id)
    if (call === undefined) return pieces
    const sent = call.sent.toString()
    const rest = input.startsWith(sent) ? input.slice(sent.length) : ''
    pieces.push(...this.#addArguments(id, rest))
    const withExtra = { index: call.index, ...(extra && { extra_content: extra }) }
    return extra ? [...pieces, ...this.#piece({ tool_calls: [withExtra] })] : pieces
  }
}
