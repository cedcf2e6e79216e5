import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'

/** A Fastify instance whose handlers know the types that their schemas say. */
export type TypedInstance = Parameters<FastifyPluginAsyncTypebox>[0]
