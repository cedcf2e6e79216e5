import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { field } from '../../fields.ts'

/*
 * Anthropic's `cache_control` (platform.claude.com/docs/en/build-with-claude/prompt-caching) marks the end of a prompt prefix
 * that is cached for the next request. OpenAI's shapes have no field for the mark; clients of OpenRouter and LiteLLM put
 * `cache_control` into a content part, a message, a tool or the request itself.
 */

/** A mark, with the lifetime of the cache entry, as Anthropic's API takes it. */
type CacheControl = { readonly type: 'ephemeral'; readonly ttl?: '5m' | '1h' }

/** The `cache_control` of the first object that has one; undefined if there is none, or its type is unknown to Anthropic. */
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

/** Marks the last part if the message has `cache_control`. A mark that the part already has stays. */
export function markLast<T extends { providerOptions?: SharedV4ProviderOptions }>(parts: T[], message: unknown): T[] {
  const last = parts.at(-1)
  const cacheControl = cacheControlOf(message)
  if (!last || !cacheControl) return parts
  const { anthropic, ...others } = last.providerOptions ?? {}
  return [...parts.slice(0, -1), { ...last, providerOptions: { ...others, anthropic: { cacheControl, ...anthropic } } }]
}
