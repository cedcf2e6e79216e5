import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { field } from '../../fields.ts'

/*
 * Anthropic's `cache_control` (platform.claude.com/docs/en/build-with-claude/prompt-caching) marks the end of a prompt prefix
 * that is cached for the next request. OpenAI's shapes have no field for this mark. So clients of OpenRouter and LiteLLM put
 * `cache_control` into a content part, a message, a tool or the request itself.
 */

/** A mark in the form of Anthropic's API. `ttl` is the lifetime of the cache entry. */
type CacheControl = { readonly type: 'ephemeral'; readonly ttl?: '5m' | '1h' }

/** The first `cache_control` in these objects; undefined if there is none, or if Anthropic does not know its type. */
export function cacheControlOf(...things: readonly unknown[]): CacheControl | undefined {
  const found = things.map((thing) => field(thing, 'cache_control')).find((control) => control != null)
  if (field(found, 'type') !== 'ephemeral') return undefined
  const ttl = field(found, 'ttl')
  return ttl === '5m' || ttl === '1h' ? { type: 'ephemeral', ttl } : { type: 'ephemeral' }
}

/** The provider options that mark a part of a prompt or a tool; an empty object without `cache_control`. */
export function cacheOptions(...things: readonly unknown[]): { readonly providerOptions?: SharedV4ProviderOptions } {
  const cacheControl = cacheControlOf(...things)
  return cacheControl ? { providerOptions: { anthropic: { cacheControl } } } : {}
}

/** Marks the last part if the message has `cache_control`. If the part already has a mark, that mark stays. */
export function markLast<T extends { providerOptions?: SharedV4ProviderOptions }>(parts: T[], message: unknown): T[] {
  const last = parts.at(-1)
  const cacheControl = cacheControlOf(message)
  if (!last || !cacheControl) return parts
  const { anthropic, ...others } = last.providerOptions ?? {}
  return [...parts.slice(0, -1), { ...last, providerOptions: { ...others, anthropic: { cacheControl, ...anthropic } } }]
}
