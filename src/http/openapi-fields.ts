// Types only: the fields that the OpenAPI document reads of a route (hide, summary, tags …).
import type {} from '@fastify/swagger'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { TSchema } from '@sinclair/typebox'

/** A Fastify instance whose handlers know the types that their schemas say. */
export type TypedInstance = Parameters<FastifyPluginAsyncTypebox>[0]

/** How a key is sent, where it may be bare as well. */
export const security: readonly Readonly<Record<string, readonly string[]>>[] = [{ apiKey: [] }, { bearer: [] }]

/** What can go wrong on every route that wants a key. */
export const refusals: readonly number[] = [401, 403, 429, 500, 503]

/** A route's answers for the OpenAPI document: the good one, and the refusals, which all have one shape. */
export function answers(
  good: Readonly<Record<number, TSchema>>,
  refusal: TSchema,
  refusedWith: readonly number[],
): Record<string, unknown> {
  return { ...good, ...Object.fromEntries(refusedWith.map((status) => [status, refusal])) }
}
