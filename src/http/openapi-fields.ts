// Types only: the fields that the OpenAPI document reads of a route (hide, summary, tags …).
import type {} from '@fastify/swagger'
import type { TSchema } from '@sinclair/typebox'

/** A route's answers for the OpenAPI document: the good one, and the refusals, which all have one shape. */
export function answers(
  good: Readonly<Record<number, TSchema>>,
  refusal: TSchema,
  refusedWith: readonly number[],
): Record<string, unknown> {
  return { ...good, ...Object.fromEntries(refusedWith.map((status) => [status, refusal])) }
}
