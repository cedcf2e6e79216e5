import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { type Casting, cast } from '../characters/library/persona.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { checkMessages } from '../openai/messages.ts'
import { checkWhole } from '../text.ts'
import type { ChatOptions } from './options.ts'

/**
 * Checks of a request what its schema cannot.
 * @throws ApiError 400 that names the field
 */
export function checkRequest({ model, messages }: CompletionRequest): void {
  checkWhole('model', model)
  checkMessages(messages)
}

/**
 * Finds out who is played in a request, and names it in the reply's header `x-character`.
 * @throws ApiError as `cast` does, and 503 where there is more to do than can be done now
 */
export async function castRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  body: CompletionRequest,
  { library, characters, lookAgain }: ChatOptions,
): Promise<Casting> {
  const casting = await cast(body, library, characters, callerOf(request).account.id)
  lookAgain(request)
  if (casting.header !== undefined) reply.header('x-character', casting.header)
  return casting
}
