import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { field } from '../../fields.ts'

/*
 * Anthropic's `cache_control` (platform.claude.com/docs/en/build-with-claude/prompt-caching): up to where a prompt is kept for
 * the next request. OpenAI's shapes have no place for it; clients of OpenRouter and LiteLLM put it into a content part, a
 * message, a tool or the request itself.
 */

/** How long, as Anthropic's API takes it. */
type CacheControl = { readonly type: 'ephemeral'; readonly ttl?: '5m' | '1h' }

/** The `cache_control` of the first thing that has one, as far as it is one that Anthropic knows. */
export function cacheControlOf(...things: readonly unknown[]): CacheControl | undefined {
  const found = things.map((thing) => field(thing, 'cache_control')).find((control) => control != null)
  if (field(found, 'type') !== 'ephemeral') return undefined
  const ttl = field(found, 'ttl')
  return ttl === '5m' || ttl === '1h' ? { type: 'ephemeral', ttl } : { type: 'ephemeral' }
}

/** What makes a part of a prompt, or a tool, one up to which the prompt is kept; nothing where nothing asks for that. */
export function cacheOptions(...things: readonly unknown[]): { readonly providerOptions?: SharedV4ProviderOptions } {
  const cacheControl = cacheControlOf(...things)
  return cacheControl ? { providerOptions: { anthropic: { cacheControl } } } : {}
}

/** Makes the last of some parts such a one, where their message asks for it. */
export function markLast<T extends { providerOptions?: SharedV4ProviderOptions }>(parts: T[], message: unknown): T[] {
  const last = parts.at(-1)
  const cacheControl = cacheControlOf(message)
  if (!last || !cacheControl) return parts
  const { anthropic, ...others } = last.providerOptions ?? {}
  return [...parts.slice(0, -1), { ...last, providerOptions: { ...others, anthropic: { cacheControl, ...anthropic } } }]
}
