import type { FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import { mayRead } from '../characters/library/character.ts'
import type { RequestTexts } from '../characters/prompt/composition.ts'
import { hasLoneSurrogates } from '../http/json.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { replaceLoneSurrogates } from '../text.ts'
import type { ResolvedPersona } from './resolve-persona.ts'

const standardNote = { depth: 4, role: 'system' } as const

/**
 * The texts that a request brings for its prompt: a persona, an author's note, and lorebooks. First it replaces lone surrogates
 * in all fields of the request, because no model may get a lone surrogate.
 * @param body is changed if it contains lone surrogates
 * @returns undefined for a request without such texts
 */
export function requestTextsOf(
  request: FastifyRequest,
  body: CompletionRequest,
  { character }: ResolvedPersona,
): RequestTexts | undefined {
  if (hasLoneSurrogates(request)) replaceLoneSurrogates(body)
  const { persona, author_note: note, lorebooks } = body
  const isNoted = note != null && note.text.trim() !== ''
  const isDescribed = persona != null && persona.trim() !== ''
  if (!isDescribed && !isNoted && (lorebooks ?? []).length === 0) return undefined
  const seesCard = !character || mayRead(callerOf(request), character)
  return {
    ...(isDescribed ? { persona } : {}),
    ...(isNoted
      ? {
          authorNote: {
            text: note.text,
            depth: note.depth ?? standardNote.depth,
            role: note.role ?? standardNote.role,
          },
        }
      : {}),
    ...(lorebooks ? { lorebooks } : {}),
    seesCard,
  }
}
