// Types only: the fields of a route that appear in the OpenAPI document (hide, summary, tags …).
import type {} from '@fastify/swagger'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Kind, type SchemaOptions, type TSchema, type TUnsafe, Type, TypeRegistry } from '@sinclair/typebox'

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

TypeRegistry.Set<{ enum: readonly unknown[] }>('Choice', ({ enum: choices }, value) => choices.includes(value))

/** The schema of one of some texts. In the OpenAPI document, an `enum` is easier to read than a union of constants. */
export function choice<T extends string>(choices: readonly T[], options: SchemaOptions): TUnsafe<T> {
  return Type.Unsafe<T>({ ...options, [Kind]: 'Choice', type: 'string', enum: choices })
}
