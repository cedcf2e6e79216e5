import type { SharedV4ProviderMetadata } from '@ai-sdk/provider'
import { field } from '../../fields.ts'
import type { Message } from '../../openai/completion-request.ts'

/*
 * Some providers send metadata that the next request of a tool loop must contain, but OpenAI's shapes have no field for it:
 * - Gemini's thought signatures of tool calls (ai.google.dev/gemini-api/docs/thought-signatures). Google's OpenAI-compatible API
 *   names the field `extra_content`.
 * - Claude's signed thinking (platform.claude.com/docs/en/build-with-claude/extended-thinking, "Preserving thinking blocks").
 * The client gets this metadata as `extra_content` of the tool call and of the message. A client that returns assistant messages
 * unchanged also sends the metadata back.
 */

/**
 * Reasoning with the provider's signature, and its place in the message: the characters of the content and the calls before it,
 * unless both are 0. Without a text, it is the signature of the content before it.
 */
export interface SignedReasoning {
  readonly text: string
  readonly provider: SharedV4ProviderMetadata
  readonly after_characters?: number
  readonly after_calls?: number
}

/** A picture of the model, as OpenRouter sends it (openrouter.ai/docs/features/multimodal/image-generation). */
export interface Picture {
  readonly type: 'image_url'
  readonly image_url: { readonly url: string }
  readonly extra_content?: SharedV4ProviderMetadata
}

/** The `extra_content` of an assistant message. */
export interface MessageExtra {
  readonly reasoning: readonly SignedReasoning[]
}

/**
 * Matches the names of metadata that clients may send back. The values of these names are opaque texts. Any other metadata would
 * act as provider options, which only the operator may set.
 */
const opaqueNames = /signature|redacted|encrypted/i

/** The part of a provider's metadata that the client must send back unchanged; undefined if there is no such part. */
export function opaqueMetadata(metadata: unknown): SharedV4ProviderMetadata | undefined {
  if (typeof metadata !== 'object' || metadata === null) return undefined
  const kept = Object.entries(metadata).flatMap(([provider, values]) => {
    const texts = Object.entries(typeof values === 'object' && values !== null ? values : {}).flatMap(
      ([name, value]: [string, unknown]) =>
        opaqueNames.test(name) && typeof value === 'string' && value !== '' ? [[name, value] as const] : [],
    )
    return texts.length === 0 ? [] : [[provider, Object.fromEntries(texts)] as const]
  })
  return kept.length === 0 ? undefined : Object.fromEntries(kept)
}

/** The reasoning of an assistant message that a client sent back, in its order. @param signer the provider; by default any */
export function signedReasoning(message: Message, signer?: string): readonly SignedReasoning[] {
  const reasoning = field(field(message, 'extra_content'), 'reasoning')
  if (!Array.isArray(reasoning)) return []
  return reasoning.flatMap((part: unknown): readonly SignedReasoning[] => {
    const text = field(part, 'text')
    const provider = opaqueMetadata(field(part, 'provider'))
    if (typeof text !== 'string' || !provider || (signer !== undefined && !Object.hasOwn(provider, signer))) return []
    return [
      {
        text,
        provider,
        after_characters: countIn(part, 'after_characters'),
        after_calls: countIn(part, 'after_calls'),
      },
    ]
  })
}

function countIn(part: unknown, name: string): number {
  const count = field(part, name)
  return typeof count === 'number' && count > 0 ? count : 0
}
