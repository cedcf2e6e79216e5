// Types only: the fields of a route that appear in the OpenAPI document (hide, summary, tags …).
import type {} from '@fastify/swagger'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { TSchema } from '@sinclair/typebox'

/** A Fastify instance whose handlers have the types of their schemas. */
export type TypedInstance = Parameters<FastifyPluginAsyncTypebox>[0]

/** The ways to send a key to routes that accept a key with and without `Bearer`. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ apiKey: [] }, { bearer: [] }]

/** The error statuses of every route that needs a key. */
export const refusals: readonly number[] = [401, 403, 429, 500, 503]

/** A route's responses for the OpenAPI document: the successful responses, and the refusals, which share one schema. */
export function answers(
  good: Readonly<Record<number, TSchema>>,
  refusal: TSchema,
  refusedWith: readonly number[],
): Record<string, unknown> {
  return { ...good, ...Object.fromEntries(refusedWith.map((status) => [status, refusal])) }
}
